// SPDX-License-Identifier: Apache-2.0
// The elements of a G_TERN5 line, one clock after its bytes.
//
// The line is decoded in parallel with the read of its state (S1), and its elements are registered
// with the operation: `take` is the clock in which that enters S2.

`default_nettype none

module nf_tern5_decode
  import nf_pkg::*;
  import nf_tern5_pkg::*;
(
  input  wire logic              clk,   // clock, rising edge
  input  wire logic              take,  // the operation of the line enters S2
  input  wire logic [LINE_W-1:0] data,  // bytes of the line
  output trits_t                 trits  // its elements, one cycle later
);
  trits_t              decoded;
  logic [2*DIGITS-1:0] digits;

  always_comb begin
    decoded = '0;
    digits  = '0;
    if (take) begin
      for (int j = 0; j < BYTES; j++) begin
        digits = digits_of(data[8*j +: 8]);
        for (int i = 0; i < DIGITS; i++) begin
          decoded[DIGITS*j + i]         = (digits[2*i +: 2] == 2'd0);
          decoded[TRITS + DIGITS*j + i] = digits[2*i];
        end
      end
    end
  end

  always_ff @(posedge clk) begin
    if (take) trits <= decoded;
  end
endmodule

`default_nettype wire
