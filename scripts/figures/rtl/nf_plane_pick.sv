// SPDX-License-Identifier: Apache-2.0
// One count plane picked of a line's: what leads planes to gates that a vote of several clocks has
// for one plane. Combinational; for nf measure figures synth, not part of the device.

`default_nettype none

module nf_plane_pick
  import nf_pkg::*;
#(
  parameter int PLANES = 7
) (
  input  wire logic [2:0]               plane,
  input  wire logic [PLANES*LINE_W-1:0] planes,
  output logic [LINE_W-1:0]             picked
);
  assign picked = planes[32'(plane)*LINE_W +: LINE_W];
endmodule

`default_nettype wire
