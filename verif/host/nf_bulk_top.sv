// SPDX-License-Identifier: Apache-2.0
// The controller for a clock loop in C++: every change of `step` is one rising edge, so that a clock
// costs one evaluation of the model instead of two. The device sees what `next` holds after the edge.

`default_nettype none

module nf_bulk_top #(
  parameter int REGIONS        = 8,
  parameter int SLOTS          = 64,
  parameter int CNT_W          = 8,
  parameter int MEM_LINES_LOG2 = 20,
  parameter int RETRY_DEPTH    = 64,
  parameter int RETRY_TIMEOUT  = 4096,
  parameter int REQ_CREDITS    = 64,
  parameter int RWD_CREDITS    = 32
) (
  input  wire logic             step,
  input  wire logic [32*57-1:0] next,
  output logic [32*65-1:0]      from_device
);
  logic             clk, last_q;
  logic [32*57-1:0] to_device;

  // High from a change of `step` until the flops have seen it.
  assign clk = step ^ last_q;
  always_ff @(posedge clk) begin
    last_q    <= step;
    to_device <= next;
  end

  nf_bulk_pins #(
    .REGIONS(REGIONS), .SLOTS(SLOTS), .CNT_W(CNT_W), .MEM_LINES_LOG2(MEM_LINES_LOG2),
    .RETRY_DEPTH(RETRY_DEPTH), .RETRY_TIMEOUT(RETRY_TIMEOUT), .REQ_CREDITS(REQ_CREDITS),
    .RWD_CREDITS(RWD_CREDITS)
  ) u_pins (.clk, .to_device, .from_device);
endmodule

`default_nettype wire
