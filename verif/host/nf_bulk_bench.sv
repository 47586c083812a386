// SPDX-License-Identifier: Apache-2.0
// The controller and a clock for simulators that load a VPI module: $nf_bulk takes the outputs of
// every clock and gives the inputs of the next (see nf_bulk_pins).
//
// With +inputs=FILE nobody computes anything: the inputs of every clock come from a file that a bulk
// run has recorded, most significant byte first, and the simulation ends with it.

`default_nettype none

module nf_bulk_bench;
  parameter int REGIONS        = 8;
  parameter int SLOTS          = 64;
  parameter int CNT_W          = 8;
  parameter int MEM_LINES_LOG2 = 20;
  parameter int RETRY_DEPTH    = 64;
  parameter int RETRY_TIMEOUT  = 4096;
  parameter int REQ_CREDITS    = 64;
  parameter int RWD_CREDITS    = 32;

  localparam int TO_WORDS   = 57;
  localparam int FROM_WORDS = 65;

  logic                     clk;
  logic [32*TO_WORDS-1:0]   to_device, next;
  logic [32*FROM_WORDS-1:0] from_device;

  nf_bulk_pins #(
    .REGIONS(REGIONS), .SLOTS(SLOTS), .CNT_W(CNT_W), .MEM_LINES_LOG2(MEM_LINES_LOG2),
    .RETRY_DEPTH(RETRY_DEPTH), .RETRY_TIMEOUT(RETRY_TIMEOUT), .REQ_CREDITS(REQ_CREDITS),
    .RWD_CREDITS(RWD_CREDITS)
  ) u_pins (.clk, .to_device, .from_device);

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
      if (count != 4 * TO_WORDS) $finish;
    end else begin
      $nf_bulk(from_device, next);
    end
    to_device <= next;
  end
endmodule

`default_nettype wire
