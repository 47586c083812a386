// SPDX-License-Identifier: Apache-2.0
// nf_secded: of the 72 bits of a stored word any one that is wrong is put right, any two are seen.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_secded
  import nf_ram_pkg::*;
(
  input wire logic        clk,
  input wire logic [63:0] word,
  input wire logic [6:0]  first,   // bits that flip: data from 0 up, then check bits
  input wire logic [6:0]  second,
  input wire logic [1:0]  flips    // how many: 0, 1 or 2
);
  logic [7:0]  check, encoded;
  logic [63:0] unused_data, data;
  logic [71:0] mask;
  logic        unused_corrected, unused_bad, corrected, bad;

  `NF_FORMAL_NO_RESET

  `NF_ASSUME(Places_M, first < 7'd72 && second < 7'd72 && first != second && flips != 2'd3)

  nf_secded u_stored (
    .word, .check(8'd0), .encoded(check), .data(unused_data), .corrected(unused_corrected),
    .bad(unused_bad)
  );
  assign mask = ((flips != 2'd0) ? 72'd1 << first : '0) | ((flips == 2'd2) ? 72'd1 << second : '0);
  nf_secded dut (
    .word(word ^ mask[63:0]), .check(check ^ mask[71:64]), .encoded, .data, .corrected, .bad
  );

  `NF_ASSERT_NEVER(Clean_A, flips == 2'd0 && (data != word || corrected || bad))
  `NF_ASSERT_NEVER(OneWrong_A, flips == 2'd1 && (data != word || !corrected || bad))
  `NF_ASSERT_NEVER(TwoWrong_A, flips == 2'd2 && !bad)

  `NF_COVER(InCheckBits_C, flips == 2'd1 && first > 7'd63 && corrected)
endmodule

`default_nettype wire
