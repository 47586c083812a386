// SPDX-License-Identifier: Apache-2.0
// Assertion macros. Under Verilator they are concurrent SVA; Icarus 11 and yosys do not parse SVA,
// so there they expand to nothing. Time 0 is left out: flops are random until the reset arrives.
// Every assertion has a name: the runner prints it on failure.
`ifndef NF_ASSERT_SVH
`define NF_ASSERT_SVH

`ifdef VERILATOR
`define NF_ASSERT(name, prop) \
  name: assert property (@(posedge clk) disable iff (!rst_n || $time == 0) (prop)) \
    else $error("[ASSERT FAILED] %m: %s", `"name`");
`define NF_ASSERT_NEVER(name, prop) \
  name: assert property (@(posedge clk) disable iff (!rst_n || $time == 0) !(prop)) \
    else $error("[ASSERT FAILED] %m: %s", `"name`");
`else
`define NF_ASSERT(name, prop)
`define NF_ASSERT_NEVER(name, prop)
`endif

`endif
