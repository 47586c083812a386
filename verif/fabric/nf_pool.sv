// SPDX-License-Identifier: Apache-2.0
// DEVICES controllers with one clock and reset, for the collectives of a pool.
//
// The testbench drives every other port of a controller in its scope, g_dev[i].u_device, as it
// drives those of a single controller: they are left unconnected here.

`default_nettype none

module nf_pool #(
  parameter int DEVICES        = 2,
  parameter int REGIONS        = 8,
  parameter int SLOTS          = 256,
  parameter int MEM_LINES_LOG2 = 20
) (
  input wire logic clk,
  input wire logic rst_n
);
  for (genvar i = 0; i < DEVICES; i++) begin : g_dev
    /* verilator lint_off PINMISSING */
`ifdef __slang__
`pragma diagnostic ignore="-Wunconnected-input-port"
`pragma diagnostic ignore="-Wunconnected-output-port"
`endif
    nf_controller #(.REGIONS(REGIONS), .SLOTS(SLOTS), .MEM_LINES_LOG2(MEM_LINES_LOG2)) u_device (
      .clk, .rst_n
    );
    /* verilator lint_on PINMISSING */
  end
endmodule

`default_nettype wire
