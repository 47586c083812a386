// SPDX-License-Identifier: Apache-2.0
// Pinned slots: those on which something is under way, so that no other line may take them. Each
// has a pin, one of PINS. The pin is the number of the list of operations that wait for the slot
// (nf_park), of its FP32 writes and gathers (nf_slot_count), and of its fill. A slot without a pin
// needs none of these.
//
// A pin is held as long as operations wait for its slot (`waited`), or FP32 writes or gathers of it
// are under way; then it is free again. `take` gives `free_pin` to a slot that has no pin; what it
// is taken for begins in the same clock, or the pin stays free. The free pin is chosen one clock
// before it is used, and there is none (`free_ok` is 0) if all are held. `free_next`: there is
// another one.
//
// `lk_*` describe the slot `hit` (one-hot or none) of the set `lk_set`; `row_pinned` its whole set,
// `ask_pinned` the set `ask_set`.

`default_nettype none
`include "nf_assert.svh"

module nf_slot_pins #(
  parameter int SLOTS = 256,
  parameter int WAYS  = 8,
  parameter int PINS  = 64,
  parameter int SET_B = (SLOTS > WAYS) ? $clog2(SLOTS / WAYS) : 1
) (
  input  wire logic                     clk,         // clock, rising edge
  input  wire logic                     rst_n,       // asynchronous reset, active low

  // Slots of two sets.
  input  wire logic [SET_B-1:0]         lk_set,      // set that was looked up
  input  wire logic [WAYS-1:0]          hit,         // slot of it that holds the line
  output logic                          lk_pinned,   // that slot has a pin
  output logic [$clog2(PINS)-1:0]       lk_pin,      // its pin
  output logic                          lk_waited,   // operations wait for it
  output logic                          lk_writing,  // FP32 writes under way
  output logic                          lk_reading,  // FP32 gathers under way
  output logic [WAYS-1:0]               row_pinned,  // slots of `lk_set` that have a pin
  input  wire logic [SET_B-1:0]         ask_set,     // another set
  output logic [WAYS-1:0]               ask_pinned,  // slots of it that have a pin

  // A new pin.
  output logic                          free_ok,     // there is a free pin
  output logic                          free_next,   // there is another one
  output logic [$clog2(PINS)-1:0]       free_pin,    // the free pin
  input  wire logic                     take,        // it is given to a slot
  input  wire logic [WAYS-1:0]          take_way,    // of `lk_set`, one-hot
  input  wire logic [$clog2(SLOTS)-1:0] take_slot,   // number of that slot
  input  wire logic                     take_ready,  // its state is there

  // Pins by number.
  input  wire logic [$clog2(PINS)-1:0]  other_pin,   // a pin
  output logic [$clog2(SLOTS)-1:0]      other_slot,  // its slot
  input  wire logic                     filled,      // the state of the slot of `fill_pin` has come
  input  wire logic [$clog2(PINS)-1:0]  fill_pin,    // a pin
  output logic [$clog2(SLOTS)-1:0]      fill_slot,   // its slot
  input  wire logic                     write_start,  // one more FP32 write of `start_pin`
  input  wire logic                     read_start,   // one more FP32 gather of `start_pin`
  input  wire logic [$clog2(PINS)-1:0]  start_pin,    // a pin
  input  wire logic                     write_end,      // an FP32 write has ended
  input  wire logic [$clog2(PINS)-1:0]  write_end_pin,  // its pin
  input  wire logic                     read_end,       // an FP32 gather has ended
  input  wire logic [$clog2(PINS)-1:0]  read_end_pin,   // its pin

  // State of all pins, one bit each.
  input  wire logic [PINS-1:0]          waited,   // operations wait for the slot
  output logic [PINS-1:0]               ready,    // the state is in the slot
  output logic [PINS-1:0]               writing,  // FP32 writes are under way
  output logic [PINS-1:0]               reading   // FP32 gathers are under way
);
  localparam int SLOT_W = $clog2(SLOTS);
  localparam int PIN_W  = $clog2(PINS);
  localparam int PEND_W = 8;

  if (PINS < 2 || (1 << PIN_W) != PINS || PINS > SLOTS) begin : g_bad_pins
    initial $fatal(1, "nf_slot_pins: PINS must be a power of two, 2..SLOTS");
  end

  logic [SLOT_W-1:0] slots [PINS];
  logic [SET_B-1:0]  set_q [PINS];
  logic [WAYS-1:0]   way_q [PINS];
  logic [PINS-1:0]   held, in_lk, in_ask, match, writes, gathers, ready_q;
  logic [PINS-1:0]   write_starts_q, read_starts_q;
  logic [PINS-1:0]   free_q, choice_from, next, taken;
  logic [PIN_W-1:0]  free_pin_q, next_pin, start_pin_q, write_end_pin_q, read_end_pin_q;
  logic              write_start_q, write_end_q, read_start_q, read_end_q;

  assign held = waited | writing | reading;

  always_comb begin
    row_pinned = '0;
    ask_pinned = '0;
    for (int p = 0; p < PINS; p++) begin
      in_lk[p]   = held[p] && set_q[p] == lk_set;
      in_ask[p]  = held[p] && set_q[p] == ask_set;
      row_pinned = row_pinned | (way_q[p] & {WAYS{in_lk[p]}});
      ask_pinned = ask_pinned | (way_q[p] & {WAYS{in_ask[p]}});
      match[p]   = in_lk[p] && |(way_q[p] & hit);
    end
  end

  assign lk_pinned  = |match;
  assign lk_waited  = |(match & waited);
  assign lk_writing = |(match & writing);
  assign lk_reading = |(match & reading);

  // ---- the free pin -----------------------------------------------------------------------------
  assign choice_from = ~held & ~free_q;
  assign next        = choice_from & (~choice_from + 1'b1);
  assign free_ok     = |(free_q & ~held);
  assign free_next   = |next;
  assign free_pin    = free_pin_q;
  assign taken       = take ? free_q : '0;

  for (genvar b = 0; b < PIN_W; b++) begin : g_encode
    // Pins whose number has bit b: 2^b without, 2^b with, and so on.
    localparam logic [PINS-1:0] WITH = {(PINS >> (b + 1)){{(1 << b){1'b1}}, {(1 << b){1'b0}}}};
    assign lk_pin[b]   = |(match & WITH);
    assign next_pin[b] = |(next & WITH);
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      free_q     <= PINS'(1);
      free_pin_q <= '0;
    end else if ((take || !free_ok) && free_next) begin
      free_q     <= next;
      free_pin_q <= next_pin;
    end
  end

  always_ff @(posedge clk) begin
    if (take) begin
      slots[free_pin_q] <= take_slot;
      set_q[free_pin_q] <= lk_set;
      way_q[free_pin_q] <= take_way;
    end
    ready_q <= (ready_q & ~taken) | (take_ready ? taken : '0)
               | (filled ? PINS'(1) << fill_pin : '0);
  end

  assign other_slot = slots[other_pin];
  assign fill_slot  = slots[fill_pin];
  assign ready      = ready_q;

  // ---- FP32 writes and gathers under way: counted a clock later, told at once -------------------
  assign writing = writes | write_starts_q;
  assign reading = gathers | read_starts_q;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      {write_start_q, write_end_q, read_start_q, read_end_q} <= '0;
      write_starts_q <= '0;
      read_starts_q  <= '0;
    end else begin
      {write_start_q, write_end_q} <= {write_start, write_end};
      {read_start_q, read_end_q}   <= {read_start, read_end};
      write_starts_q <= write_start ? PINS'(1) << start_pin : '0;
      read_starts_q  <= read_start ? PINS'(1) << start_pin : '0;
    end
  end

  always_ff @(posedge clk) begin
    start_pin_q     <= start_pin;
    write_end_pin_q <= write_end_pin;
    read_end_pin_q  <= read_end_pin;
  end

  nf_slot_count #(.SLOTS(PINS), .WIDTH(PEND_W)) u_writes (
    .clk, .rst_n, .up (write_start_q), .up_slot (start_pin_q), .down (write_end_q),
    .down_slot (write_end_pin_q), .busy (writes)
  );
  nf_slot_count #(.SLOTS(PINS), .WIDTH(PEND_W)) u_gathers (
    .clk, .rst_n, .up (read_start_q), .up_slot (start_pin_q), .down (read_end_q),
    .down_slot (read_end_pin_q), .busy (gathers)
  );

  `NF_ASSERT(OnePin_A, $onehot0(match))
  `NF_ASSERT_NEVER(TakenTwice_A, take && |(take_way & row_pinned))
  `NF_ASSERT_NEVER(TakesHeld_A, take && !free_ok)
  `NF_ASSERT(OneWay_A, !take || $onehot(take_way))
  `NF_ASSERT(OneFree_A, $onehot(free_q))
  `NF_ASSERT_NEVER(StartsUnpinned_A, (write_start || read_start)
                                     && !(held[start_pin] || (take && start_pin == free_pin_q)))
  `NF_ASSERT_NEVER(FilledUnheld_A, filled && (!held[fill_pin] || ready_q[fill_pin]))
  `NF_ASSERT_NEVER(GatherOverWrite_A, read_start && writing[start_pin])
  `NF_ASSERT_NEVER(WriteOverGather_A, write_start && reading[start_pin])
endmodule

`default_nettype wire
