// SPDX-License-Identifier: Apache-2.0
// nf_sum against its MyHDL twin, in every view that a mode has.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_twin_sum
  import nf_pkg::*;
#(
  parameter int CNT_W = 8
) (
  input wire logic                    clk,
  input wire logic                    en,
  input wire logic                    wide,
  input wire logic                    codes_signed,
  input wire logic                    bytes,
  input wire logic [1:0]              part,
  input wire logic [CNT_W*LINE_W-1:0] planes
);
  logic [LINE_W-1:0] line, want;

  `NF_FORMAL_RESET

  nf_sum #(.CNT_W(CNT_W)) dut (.*);
  myhdl_nf_sum u_twin (.clk, .en, .wide, .codes_signed, .bytes, .part, .planes, .line(want));

  `NF_ASSUME(LinesThatThereAre_M, !((wide || bytes) && part[1]) && !(wide && bytes))

  // A line is of what was asked for a clock ago.
  logic       any_q, en_q, wide_q, bytes_q;
  logic [1:0] part_q;

  always_ff @(posedge clk) begin
    any_q <= rst_n;
    {en_q, wide_q, bytes_q, part_q} <= {en, wide, bytes, part};
  end

  logic shows;
  assign shows = any_q && en_q;

  `NF_ASSERT_NEVER(SameSum16_A, shows && !wide_q && !bytes_q && line != want)
  `NF_ASSERT_NEVER(SameSum8_A, shows && bytes_q && line != want)
  `NF_ASSERT_NEVER(SameSumWide_A, shows && wide_q && line != want)
  `NF_ASSERT_NEVER(SameIdle_A, any_q && !en_q && line != want)

  `NF_COVER(NegativeAndNot_C, shows && wide_q && want[15] && !want[31] && want[30:16] != '0)
  `NF_COVER(LastPart_C, shows && part_q == 2'd3 && want[LINE_W-1] && want[0])
endmodule

`default_nettype wire
