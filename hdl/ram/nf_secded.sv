// SPDX-License-Identifier: Apache-2.0
// SECDED (72,64): check bits of a word, and the word put right by the check bits that were stored
// with it. Combinational.
//
// One wrong bit of the 72, in data or check bits, is `corrected`; two are `bad`, and so are more
// where they can be distinguished from one.

`default_nettype none

module nf_secded
  import nf_ram_pkg::*;
(
  input  wire logic [63:0] word,       // stored data
  input  wire logic [7:0]  check,      // stored check bits
  output logic [7:0]       encoded,  // of `word`
  output logic [63:0]      data,       // `word`, with one wrong bit put right
  output logic             corrected,  // one bit was wrong
  output logic             bad         // more than one bit was wrong
);
  logic [7:0]  syndrome;
  logic [63:0] wrong;
  logic        in_check;

  for (genvar r = 0; r < 8; r++) begin : g_row
    localparam logic [63:0] MASK = SECDED_MASKS[64*r +: 64];
    assign encoded[r] = ^(word & MASK);
  end

  assign syndrome = encoded ^ check;

  for (genvar i = 0; i < 64; i++) begin : g_bit
    localparam logic [7:0] COLUMN = {
      SECDED_MASKS[448 + i], SECDED_MASKS[384 + i], SECDED_MASKS[320 + i], SECDED_MASKS[256 + i],
      SECDED_MASKS[192 + i], SECDED_MASKS[128 + i], SECDED_MASKS[64 + i], SECDED_MASKS[i]
    };
    assign wrong[i] = (syndrome == COLUMN);
  end

  assign in_check  = (syndrome != '0) && ((syndrome & (syndrome - 1'b1)) == '0);
  assign data      = word ^ wrong;
  assign corrected = |wrong || in_check;
  assign bad       = (syndrome != '0) && !corrected;
endmodule

`default_nettype wire
