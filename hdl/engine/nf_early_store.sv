// SPDX-License-Identifier: Apache-2.0
// Slots that wait for a fill after an early store, and whether memory has answered that store. An
// early store is a whole FP32 line that goes to memory while the record of its line is fetched
// (nf_lookup).
//
// Slots are numbered by their pins (nf_slot_pins). `alloc` gives `new_pin` to a miss that fetches,
// `alloc_early` if that is an early store; `filled` ends it. `lands`: the store that memory answers
// (`stored_*`) is an early one whose fill is still to come.

`default_nettype none
`include "nf_assert.svh"

module nf_early_store #(
  parameter int PINS = 64
) (
  input  wire logic                     clk,           // clock, rising edge
  input  wire logic                     rst_n,         // asynchronous reset, active low
  input  wire logic                     alloc,         // a miss that fetches takes `new_pin`
  input  wire logic                     alloc_early,   // it is an early store
  input  wire logic [$clog2(PINS)-1:0] new_pin,       // pin that it takes
  input  wire logic                     stored_valid,  // memory has answered a store
  input  wire logic [$clog2(PINS)-1:0] stored_pin,   // pin of that store
  input  wire logic                     stored_err,    // memory refused it
  output logic                          lands,  // it is an early store whose fill is still to come
  input  wire logic                     filled,        // the fill of `fill_pin` ends
  input  wire logic [$clog2(PINS)-1:0] fill_pin,     // pin of the slot that is filled
  output logic                          fill_early,    // it belongs to an early store
  output logic                          fill_landed,   // memory has answered that store
  output logic                          fill_err,      // memory refused that store
  input  wire logic [PINS-1:0]         ready          // pins whose slot is ready
);
  logic [PINS-1:0] early_q, landed_q, landed_err_q;

  assign fill_early  = early_q[fill_pin];
  assign fill_landed = landed_q[fill_pin];
  assign fill_err    = landed_err_q[fill_pin];
  assign lands       = stored_valid && early_q[stored_pin];

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      early_q <= '0;
    end else begin
      if (alloc && alloc_early) early_q[new_pin] <= 1'b1;
      if (filled) early_q[fill_pin] <= 1'b0;
    end
  end

  always_ff @(posedge clk) begin
    if (alloc) landed_q[new_pin] <= 1'b0;  // each fill comes after its miss
    if (lands) begin
      landed_q[stored_pin]     <= 1'b1;
      landed_err_q[stored_pin] <= stored_err;
    end
  end

  `NF_ASSERT_NEVER(EarlyOverStore_A, alloc && early_q[new_pin])
  `NF_ASSERT_NEVER(EarlyReady_A, |(early_q & ready))
endmodule

`default_nettype wire
