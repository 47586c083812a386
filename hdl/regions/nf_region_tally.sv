// SPDX-License-Identifier: Apache-2.0
// What has happened in one region since its last commit: refused accesses to its window,
// contributions that came late, and lines that a contribution marked as poisoned.
//
// The events are strobes of one clock. `clear` is the commit; nothing is in flight then.

`default_nettype none

module nf_region_tally (
  input  wire logic  clk,    // clock, rising edge
  input  wire logic  rst_n,  // asynchronous reset, active low

  input  wire logic  clear,           // commit of the region
  input  wire logic  refused_event,   // strobe: an access was refused
  input  wire logic  late_event,      // strobe: a contribution came after CLOSE
  input  wire logic  poisoned_event,  // strobe: a line was poisoned

  output logic [31:0] refused,  // refused accesses since the commit
  output logic [31:0] late,     // late contributions since the commit
  output logic [31:0] poisoned  // poisoned lines since the commit
);
  nf_counter #(.INC_W(1)) u_refused (
    .clk, .rst_n,
    .clear, .inc(refused_event),
    .count(refused)
  );
  nf_counter #(.INC_W(1)) u_late (
    .clk, .rst_n,
    .clear, .inc(late_event),
    .count(late)
  );
  nf_counter #(.INC_W(1)) u_poisoned (
    .clk, .rst_n,
    .clear, .inc(poisoned_event),
    .count(poisoned)
  );
endmodule

`default_nettype wire
