// SPDX-License-Identifier: Apache-2.0
// Operand isolation: logic that does not toggle while its result is unused.
//
//   NF_ISOLATE(en)   whether wide logic is computed: a simulator leaves it out without `en`, which
//                    is most of its time. Gates would cost one AND a bit for that; they compute
//                    always.
//
// Nothing may hang on what is computed without `en`. The proofs take it as simulators do.
`ifndef NF_OPERAND_ISOLATION_SVH
`define NF_OPERAND_ISOLATION_SVH

`ifdef FORMAL
`define NF_ISOLATE(en) (en)
`elsif SYNTHESIS
`define NF_ISOLATE(en) 1'b1
`else
`define NF_ISOLATE(en) (en)
`endif

`endif
