// SPDX-License-Identifier: Apache-2.0
// nf_fp32_add between two clocks: the operands of one clock and the sum of the next.

`default_nettype none

module fv_fp32_add (
  input  wire logic        clk,
  input  wire logic        en,
  input  wire logic [31:0] a,
  input  wire logic [31:0] b,
  output logic [31:0]      sum
);
  nf_fp32_add dut (.clk, .en, .a, .b, .sum);
endmodule

`default_nettype wire
