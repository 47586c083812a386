// SPDX-License-Identifier: Apache-2.0
// nf_fp32_add and its MyHDL twin between two clocks: the operands of one clock and both sums of the
// next.

`default_nettype none

module fv_twin_fp32_add (
  input  wire logic        clk,
  input  wire logic        en,
  input  wire logic [31:0] a,
  input  wire logic [31:0] b,
  output logic [31:0]      sum,
  output logic [31:0]      twin
);
  nf_fp32_add       dut    (.clk, .en, .a, .b, .sum);
  myhdl_nf_fp32_add u_twin (.clk, .en, .a, .b, .sum(twin));
endmodule

`default_nettype wire
