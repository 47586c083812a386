// SPDX-License-Identifier: Apache-2.0
// The controller for a clock loop in C++: every change of `step` is one rising edge, so that a
// clock costs one evaluation of the model instead of two. The device sees what `next` holds after
// the edge.

`default_nettype none

module nf_bulk_top
  import nf_pins_pkg::*;
(
  input  wire logic                 step,
  input  wire logic [TO_BITS-1:0]   next,
  output logic      [FROM_BITS-1:0] from_device
);
  logic               clk, last_q;
  logic [TO_BITS-1:0] to_device;

  // High from a change of `step` until the flops have seen it.
  assign clk = step ^ last_q;
  always_ff @(posedge clk) begin
    last_q    <= step;
    to_device <= next;
  end

  nf_pins u_pins (.clk, .to_device, .from_device);
endmodule

`default_nettype wire
