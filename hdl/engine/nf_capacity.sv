// SPDX-License-Identifier: Apache-2.0
// Capacity check of each region: misses among the last `window` contributions to it.
//
// `exceeded` pulses in the clock after the contribution that brings the misses above `threshold`,
// and again for each further one while they stay above; the sticky flag is in the registers.
// The history of a region restarts at its commit, all do when the window register changes.
//
// A contribution writes a bit, 1 for a miss, to the ring of its region, and reads the bit `window`
// places before, which leaves the window. The ring is twice as long as the longest window, so that
// both places are never the same. Bits from before a restart are not counted.

`default_nettype none

module nf_capacity #(
  parameter int REGIONS = 8
) (
  input  wire logic               clk,           // clock, rising edge
  input  wire logic               rst_n,         // asynchronous reset, active low
  input  wire logic [REGIONS-1:0] clear,         // commit of a region
  input  wire logic [8:0]         window,        // 1..256; 0 switches the check off
  input  wire logic [8:0]         threshold,     // misses that are allowed in the window
  input  wire logic               contribution,  // strobe: a contribution was looked up
  input  wire logic               miss,          // it was a miss
  input  wire logic [3:0]         region,        // its region
  output logic [REGIONS-1:0]      exceeded       // pulse: misses are above `threshold`
);
  localparam int REGION_W = (REGIONS > 1) ? $clog2(REGIONS) : 1;
  localparam int PLACE_W  = 9;

  if (REGIONS < 1 || REGIONS > 16) begin : g_bad_regions
    initial $fatal(1, "nf_capacity: REGIONS must be 1 to 16");
  end

  (* no_rw_check *) logic history_ram [1 << (REGION_W + PLACE_W)];
  logic [PLACE_W-1:0]  place_q [REGIONS];   // of the next contribution to a region
  logic [8:0]          counted_q [REGIONS];  // contributions since the restart, at most 256
  logic [8:0]          misses_q [REGIONS];
  logic [REGION_W-1:0] at, at_q;
  logic [PLACE_W-1:0]  place;
  logic [REGIONS-1:0]  restart;
  logic [8:0]          window_q, misses_d;
  logic                counts, counts_q, miss_q, full_q, oldest_q;

  assign restart = clear | {REGIONS{window != window_q}};
  assign at      = REGION_W'(32'(region) % REGIONS);
  assign place   = place_q[at];
  assign counts  = contribution && !restart[at] && (window != 9'd0);

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) counts_q <= 1'b0;
    else        counts_q <= counts;
  end

  // No reset: the commit before the first contribution clears it.
  always_ff @(posedge clk) begin
    window_q <= window;
    if (counts) begin
      history_ram[{at, place}] <= miss;
      oldest_q                 <= history_ram[{at, PLACE_W'(place - window)}];
      at_q                     <= at;
      miss_q                   <= miss;
      full_q                   <= counted_q[at] >= window;
      place_q[at]              <= place + 1'b1;
      if (!counted_q[at][8]) counted_q[at] <= counted_q[at] + 1'b1;
    end
    if (counts_q) misses_q[at_q] <= misses_d;
    for (int r = 0; r < REGIONS; r++) begin
      if (restart[r]) begin
        place_q[r]   <= '0;
        counted_q[r] <= '0;
        misses_q[r]  <= '0;
      end
    end
  end

  assign misses_d = misses_q[at_q] + 9'(miss_q) - 9'(full_q && oldest_q);
  assign exceeded = (counts_q && misses_d > threshold) ? REGIONS'(1) << at_q : '0;
endmodule

`default_nettype wire
