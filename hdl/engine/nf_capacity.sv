// SPDX-License-Identifier: Apache-2.0
// Capacity check of one region: misses among the last `window` contributions.
//
// `exceeded` pulses in the clock after the contribution that brings the misses above `threshold`,
// and again for each further one while they stay above; the sticky flag is in the registers.
// The history restarts at a commit of the region and when the window register changes.

`default_nettype none

module nf_capacity (
  input  wire logic       clk,           // clock, rising edge
  input  wire logic       rst_n,         // asynchronous reset, active low
  input  wire logic       clear,         // commit of the region
  input  wire logic [8:0] window,  // 1..256; 0 switches the check off
  input  wire logic [8:0] threshold,     // misses that are allowed in the window
  input  wire logic       contribution,  // strobe: a contribution was looked up
  input  wire logic       miss,          // it was a miss
  output logic            exceeded       // pulse: misses are above `threshold`
);
  logic [255:0] history_q;
  logic [8:0]   misses_q, misses_d, window_q;
  logic         leaves, restart, check_q;

  assign restart  = clear || (window != window_q);
  assign leaves   = (window != 9'd0) && history_q[window[7:0] - 8'd1];
  assign misses_d = misses_q + 9'(miss) - 9'(leaves);

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) check_q <= 1'b0;
    else        check_q <= contribution && !restart && (window != 9'd0);
  end

  // No reset: the commit before the first contribution clears it.
  always_ff @(posedge clk) begin
    window_q <= window;
    if (restart) begin
      history_q <= '0;
      misses_q  <= '0;
    end else if (contribution) begin
      history_q <= {history_q[254:0], miss};
      misses_q  <= misses_d;
    end
  end

  assign exceeded = check_q && (misses_q > threshold);
endmodule

`default_nettype wire
