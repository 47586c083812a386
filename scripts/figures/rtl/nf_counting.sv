// SPDX-License-Identifier: Apache-2.0
// A contribution added to the counters of a line as the engine does it: planes above those that
// count 64 workers are 0, so no counter is held at its maximum. Combinational; for
// the area figures, not part of the device.

`default_nettype none

module nf_counting
  import nf_pkg::*;
#(
  parameter int CNT_W = 8,
  parameter int ECP5  = 0   // 1: in carry cells
) (
  input  wire logic                                      en,
  input  wire logic                                      ternary,
  input  wire logic                                      ones,
  input  wire logic [LINE_W-1:0]                         data,
  input  wire logic [counting_planes(CNT_W)*LINE_W-1:0]  planes,
  output logic [counting_planes(CNT_W)*LINE_W-1:0]       counted
);
  logic [CNT_W*LINE_W-1:0] planes_out;
  logic                    unused;

  if (ECP5 != 0) begin : g_ecp5
    nf_ecp5_accumulate #(.CNT_W(CNT_W)) u_accumulate (
      .en, .ternary, .ones, .data, .planes_read ((CNT_W*LINE_W)'(planes)), .planes_newer ('0),
      .forward (1'b0), .has ({CNT_W{1'b1}}), .planes_out, .saturated (unused)
    );
  end else begin : g_portable
    nf_accumulate #(.CNT_W(CNT_W)) u_accumulate (
      .en, .ternary, .ones, .data, .planes_in ((CNT_W*LINE_W)'(planes)), .planes_out,
      .saturated (unused)
    );
  end
  assign counted = planes_out[counting_planes(CNT_W)*LINE_W-1:0];
endmodule

`default_nettype wire
