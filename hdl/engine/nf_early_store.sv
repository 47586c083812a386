// SPDX-License-Identifier: Apache-2.0
// Slots that wait for a fill after an early store, and whether memory has answered that store. An
// early store is a whole FP32 line that goes to memory while the record of its line is fetched
// (nf_lookup).
//
// `alloc` gives `victim_slot` to a miss, `alloc_early` if that is an early store; `filled` ends it.
// `lands`: the store that memory answers (`stored_*`) is an early one whose fill is still to come.

`default_nettype none
`include "nf_assert.svh"

module nf_early_store #(
  parameter int SLOTS = 64
) (
  input  wire logic                     clk,           // clock, rising edge
  input  wire logic                     rst_n,         // asynchronous reset, active low
  input  wire logic                     alloc,         // a miss takes `victim_slot`
  input  wire logic                     alloc_early,   // it is an early store
  input  wire logic [$clog2(SLOTS)-1:0] victim_slot,   // slot that it takes
  input  wire logic                     stored_valid,  // memory has answered a store
  input  wire logic [$clog2(SLOTS)-1:0] stored_slot,   // slot of that store
  input  wire logic                     stored_err,    // memory refused it
  output logic                          lands,  // it is an early store whose fill is still to come
  input  wire logic                     filled,        // the fill of `fill_slot` ends
  input  wire logic [$clog2(SLOTS)-1:0] fill_slot,     // slot that is filled
  output logic                          fill_early,    // it belongs to an early store
  output logic                          fill_landed,   // memory has answered that store
  output logic                          fill_err,      // memory refused that store
  input  wire logic [SLOTS-1:0]         ready          // slots that are ready
);
  logic [SLOTS-1:0] early_q, landed_q, landed_err_q;

  assign fill_early  = early_q[fill_slot];
  assign fill_landed = landed_q[fill_slot];
  assign fill_err    = landed_err_q[fill_slot];
  assign lands       = stored_valid && early_q[stored_slot];

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      early_q <= '0;
    end else begin
      if (alloc && alloc_early) early_q[victim_slot] <= 1'b1;
      if (filled) early_q[fill_slot] <= 1'b0;
    end
  end

  always_ff @(posedge clk) begin
    if (alloc) landed_q[victim_slot] <= 1'b0;  // each fill comes after its miss
    if (lands) begin
      landed_q[stored_slot]     <= 1'b1;
      landed_err_q[stored_slot] <= stored_err;
    end
  end

  `NF_ASSERT_NEVER(EarlyOverStore_A, alloc && early_q[victim_slot])
  `NF_ASSERT_NEVER(EarlyReady_A, |(early_q & ready))
endmodule

`default_nettype wire
