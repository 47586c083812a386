// SPDX-License-Identifier: Apache-2.0
// The controller and a clock for simulators that load a VPI module: $nf_bulk takes the outputs of
// every clock and gives the inputs of the next (nf_pins.h, nf_pins.sv).
//
// With +inputs=FILE nobody computes anything: the inputs of every clock come from a file that a
// bulk run has recorded, most significant byte first, and the simulation ends with it.

`default_nettype none

module nf_bulk_bench
  import nf_pins_pkg::*;
;
  logic                 clk;
  logic [TO_BITS-1:0]   to_device, next;
  logic [FROM_BITS-1:0] from_device;

  nf_pins u_pins (.clk, .to_device, .from_device);

  // The outputs are those before the edge, the inputs change after it.
  reg [8*1024-1:0] inputs;
  integer          file, count;
  reg              recorded;

  initial begin
    clk       = 1'b0;
    to_device = '0;
    next      = '0;
    file      = 0;
    recorded  = $value$plusargs("inputs=%s", inputs);
    if (recorded) begin
      file = $fopen(inputs, "rb");
      if (file == 0) $fatal(1, "nf_bulk_bench: cannot read the inputs");
    end
    forever #1 clk = !clk;
  end

  always @(posedge clk) begin
    if (recorded) begin
      count = $fread(next, file);
      if (count != TO_BITS / 8) $finish;
    end else begin
      $nf_bulk(from_device, next);
    end
    to_device <= next;
  end
endmodule

`default_nettype wire
