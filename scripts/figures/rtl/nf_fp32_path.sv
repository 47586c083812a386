// SPDX-License-Identifier: Apache-2.0
// The yardstick of the low-bit datapath: sixteen FP32 adders, a line of sixteen elements a clock,
// with registers at both ends as there. For nf measure figures synth, not part of the device.

`default_nettype none

module nf_fp32_path
  import nf_pkg::*;
(
  input  wire logic              clk,
  input  wire logic              adds,
  input  wire logic [LINE_W-1:0] data,
  input  wire logic [LINE_W-1:0] sum,
  output logic [LINE_W-1:0]      sum_q
);
  localparam int LANES = LINE_W / 32;

  logic              adds_q;
  logic [LINE_W-1:0] data_q, held_q, added;

  for (genvar n = 0; n < LANES; n++) begin : g_lane
    nf_fp32_add u_add (
      .clk, .en (adds_q), .a (held_q[32*n +: 32]), .b (data_q[32*n +: 32]),
      .sum (added[32*n +: 32])
    );
  end

  always_ff @(posedge clk) begin
    adds_q <= adds;
    data_q <= data;
    held_q <= sum;
    sum_q  <= added;
  end
endmodule

`default_nettype wire
