// SPDX-License-Identifier: Apache-2.0
// One G_TERN5 contribution added to the bit-sliced counters of a line. Combinational.
//
// Column e counts t + 1 of element e, t one of -1, 0, +1: `trits` adds 1 where it is 0 and 2 where
// it is +1. The other columns stay 0. A commit lets no more workers in than the counters can hold,
// so none saturates. Without `en` the planes pass unchanged.

`default_nettype none

module nf_tern5_add
  import nf_pkg::*;
  import nf_tern5_pkg::*;
#(
  parameter int CNT_W = 8
) (
  input  wire logic                    en,         // add; else the planes pass unchanged
  input  wire trits_t                  trits,      // elements of the contribution
  input  wire logic [CNT_W*LINE_W-1:0] planes_in,  // count planes before
  output logic [CNT_W*LINE_W-1:0]      planes_out  // count planes after
);
  logic [TRITS-1:0] carry, plane;

  // An element adds 1 or 2, never both: what it adds is the carry into plane 0 or into plane 1.
  always_comb begin
    planes_out = planes_in;
    carry      = '0;
    plane      = '0;
    if (en) begin
      carry = trits.zero;
      for (int p = 0; p < CNT_W; p++) begin
        if (p == 1) carry = carry | trits.plus;
        plane                        = planes_in[p*LINE_W +: TRITS];
        planes_out[p*LINE_W +: TRITS] = plane ^ carry;
        carry                        = plane & carry;
      end
    end
  end
endmodule

`default_nettype wire
