// SPDX-License-Identifier: Apache-2.0
// Comparison of the columns of a line with a scalar, for some planes, from the lowest on.
// Combinational.
//
// For each plane, a step compares it with a digit of a scalar that is common to all columns
// (`below`: a column is below the scalar so far), or takes the plane itself (a digit without a
// comparison), or skips it. That is a function of four bits, a LUT4: selecting a count plane costs
// nothing in addition to comparing. With `nets` the compared value is no count but, in both columns
// of an element, plus less minus, complemented in the even one; `borrow` belongs to it. Without
// `en` no output is valid.

`default_nettype none
`include "nf_operand_isolation.svh"

module nf_vote_steps
  import nf_pkg::*;
#(
  parameter int PLANES = 4
) (
  input  wire logic                     en,         // outputs are used
  input  wire logic                     nets,       // compare nets of plus and minus
  input  wire logic [PLANES-1:0]        compares,   // planes that are compared
  input  wire logic [PLANES-1:0]        digits,     // digits of the scalar
  input  wire logic [PLANES*LINE_W-1:0] planes,     // count planes
  input  wire logic [LINE_W-1:0]        below_in,   // columns below the scalar before these planes
  input  wire logic [LINE_W-1:0]        borrow_in,  // borrow of the nets before these planes
  output logic [LINE_W-1:0]             below,      // columns below the scalar after these planes
  output logic [LINE_W-1:0]             borrow      // borrow of the nets after these planes
);
  localparam logic [LINE_W-1:0] EVEN = {LINE_W/2{2'b01}};
  localparam logic [LINE_W-1:0] ODD  = ~EVEN;

  logic [LINE_W-1:0] plus, minus, value, found, owed;

  always_comb begin
    plus  = '0;
    minus = '0;
    value = '0;
    found = '0;
    owed  = '0;
    if (`NF_ISOLATE(en)) begin
      found = below_in;
      owed  = borrow_in;
      for (int p = 0; p < PLANES; p++) begin
        value = planes[p*LINE_W +: LINE_W];
        if (nets) begin
          plus  = (value & EVEN) | ((value & EVEN) << 1);
          minus = (value & ODD) | ((value & ODD) >> 1);
          value = plus ^ minus ^ owed ^ EVEN;
          owed  = (~plus & minus) | (~(plus ^ minus) & owed);
        end
        if (compares[p]) begin
          found = digits[p] ? (~value | found) : (~value & found);
        end else if (digits[p]) begin
          found = value;
        end
      end
    end
  end

  assign below  = found;
  assign borrow = owed;
endmodule

`default_nettype wire
