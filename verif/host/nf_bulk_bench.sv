// SPDX-License-Identifier: Apache-2.0
// The controller and a clock for simulators that load a VPI module: $nf_bulk takes the outputs of
// every clock and gives the inputs of the next (nf_pins.h, nf_pins.sv).

`default_nettype none

module nf_bulk_bench
  import nf_pins_pkg::*;
;
  logic                 clk;
  logic [TO_BITS-1:0]   to_device, next;
  logic [FROM_BITS-1:0] from_device;

  nf_pins u_pins (.clk, .to_device, .from_device);

  initial begin
    clk       = 1'b0;
    to_device = '0;
    next      = '0;
    forever #1 clk = !clk;
  end

  // The outputs are those before the edge, the inputs change after it.
  always @(posedge clk) begin
    $nf_bulk(from_device, next);
    to_device <= next;
  end
endmodule

`default_nettype wire
