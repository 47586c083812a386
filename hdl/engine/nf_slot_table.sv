// SPDX-License-Identifier: Apache-2.0
// Which line lives in which on-chip slot: tags, life cycle and victim choice.
//
// A slot is EMPTY, FILLING (allocated, its state is on the way) or READY. The engine performs at
// most one action a clock, named by `act`; all queries are combinational on the state before it.
// A slot with waiters (operations parked until it is ready) or with FP32 writes or gathers under way
// is pinned: it is never a victim. `invalidate` drops every slot of a region without writing it back.

`default_nettype none
`include "nf_assert.svh"

module nf_slot_table
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
  parameter int SLOTS   = 64,
  parameter int REGIONS = 8,
  parameter int KEY_W   = 20   // index bits that can differ between two lines
) (
  input  wire logic                     clk,
  input  wire logic                     rst_n,

  // Lookup of a line.
  input  wire logic [3:0]               lk_region,
  input  wire logic [INDEX_W-1:0]       lk_index,
  output logic                          lk_hit,
  output logic [$clog2(SLOTS)-1:0]      lk_slot,
  output logic                          lk_open,      // READY and nobody waits for it
  output logic                          lk_writing,   // FP32 writes under way
  output logic                          lk_reading,   // FP32 gathers under way

  // The slot that a miss would take.
  output logic                          victim_ok,
  output logic [$clog2(SLOTS)-1:0]      victim_slot,
  output logic                          victim_dirty,
  output logic [3:0]                    victim_region,
  output logic [INDEX_W-1:0]            victim_index,

  // State of a slot known by number (head of the waiting queue).
  input  wire logic [$clog2(SLOTS)-1:0] head_slot,
  output logic                          head_ready,
  output logic                          head_writing,
  output logic                          head_reading,

  // Action.
  input  wire logic                     alloc,        // victim_slot takes (lk_region, lk_index); one waiter
  input  wire logic                     wait_add,     // lk_slot: one more waiter
  input  wire logic                     wait_take,    // head_slot: one waiter less
  input  wire logic                     filled,       // fill_slot becomes READY
  input  wire logic [$clog2(SLOTS)-1:0] fill_slot,
  input  wire logic                     touch,        // touch_slot is modified
  input  wire logic [$clog2(SLOTS)-1:0] touch_slot,
  input  wire logic                     write_start,  // touch_slot: one more FP32 write under way
  input  wire logic                     write_end,
  input  wire logic [$clog2(SLOTS)-1:0] write_end_slot,
  input  wire logic                     read_start,   // read_slot: one more FP32 gather under way
  input  wire logic [$clog2(SLOTS)-1:0] read_slot,
  input  wire logic                     read_end,
  input  wire logic [$clog2(SLOTS)-1:0] read_end_slot,
  input  wire logic [REGIONS-1:0]       invalidate
);
  localparam int SLOT_W = $clog2(SLOTS);
  localparam int WAIT_W = 6;
  localparam int PEND_W = 8;

  if (SLOTS < 4 || SLOTS > 256 || (1 << SLOT_W) != SLOTS) begin : g_bad_slots
    initial $fatal(1, "nf_slot_table: SLOTS must be a power of two, 4..256");
  end

  logic [SLOTS-1:0]   hit, ready, dirty, waited, writing, reading, empty, evictable;
  logic [SLOTS-1:0]   after_ptr, choice_from, choice;
  logic [3:0]         region_q [SLOTS];
  logic [KEY_W-1:0]   index_q [SLOTS];
  logic [SLOT_W-1:0]  ptr_q;

  for (genvar s = 0; s < SLOTS; s++) begin : g_slot
    logic              used_q, ready_q, dirty_q;
    logic [WAIT_W-1:0] waiters_q;
    logic [PEND_W-1:0] writes_q, gathers_q;
    logic              me_alloc, me_wadd, me_wtake, me_wstart, me_wend, me_rstart, me_rend, me_drop;

    assign me_alloc  = alloc && (victim_slot == SLOT_W'(s));
    assign me_wadd   = wait_add && (lk_slot == SLOT_W'(s));
    assign me_wtake  = wait_take && (head_slot == SLOT_W'(s));
    assign me_wstart = write_start && (touch_slot == SLOT_W'(s));
    assign me_wend   = write_end && (write_end_slot == SLOT_W'(s));
    assign me_rstart = read_start && (read_slot == SLOT_W'(s));
    assign me_rend   = read_end && (read_end_slot == SLOT_W'(s));
    assign me_drop   = used_q && invalidate[32'(region_q[s]) % REGIONS];

    always_ff @(posedge clk or negedge rst_n) begin
      if (!rst_n) begin
        used_q    <= 1'b0;
        ready_q   <= 1'b0;
        dirty_q   <= 1'b0;
        waiters_q <= '0;
        writes_q  <= '0;
        gathers_q <= '0;
      end else if (me_drop) begin
        used_q  <= 1'b0;
        ready_q <= 1'b0;
        dirty_q <= 1'b0;
      end else if (me_alloc) begin
        used_q    <= 1'b1;
        ready_q   <= 1'b0;
        dirty_q   <= 1'b0;
        waiters_q <= WAIT_W'(1);
      end else begin
        if (filled && fill_slot == SLOT_W'(s)) ready_q <= 1'b1;
        if (touch && touch_slot == SLOT_W'(s)) dirty_q <= 1'b1;
        waiters_q <= waiters_q + WAIT_W'(me_wadd) - WAIT_W'(me_wtake);
        writes_q  <= writes_q + PEND_W'(me_wstart) - PEND_W'(me_wend);
        gathers_q <= gathers_q + PEND_W'(me_rstart) - PEND_W'(me_rend);
      end
    end

    assign hit[s]       = used_q && (region_q[s] == lk_region)
                          && (index_q[s] == lk_index[KEY_W-1:0]);
    assign ready[s]     = ready_q;
    assign dirty[s]     = dirty_q;
    assign waited[s]    = (waiters_q != '0);
    assign writing[s]   = (writes_q != '0);
    assign reading[s]   = (gathers_q != '0);
    assign empty[s]     = !used_q;
    assign evictable[s] = used_q && ready_q && !waited[s] && !writing[s] && !reading[s];
    assign after_ptr[s] = (s >= 32'(ptr_q));

    `NF_ASSERT_NEVER(DropBusy_A, me_drop && (waited[s] || writing[s] || reading[s]))
    `NF_ASSERT_NEVER(WaitUnder_A, me_wtake && waiters_q == '0)
    `NF_ASSERT_NEVER(WaitOver_A, me_wadd && waiters_q == '1)
    `NF_ASSERT_NEVER(WriteUnder_A, me_wend && writes_q == '0)
    `NF_ASSERT_NEVER(WriteOver_A, me_wstart && writes_q == '1)
    `NF_ASSERT_NEVER(GatherUnder_A, me_rend && gathers_q == '0)
    `NF_ASSERT_NEVER(GatherOver_A, me_rstart && gathers_q == '1)
  end

  always_ff @(posedge clk) begin
    if (alloc) begin
      region_q[victim_slot] <= lk_region;
      index_q[victim_slot]  <= lk_index[KEY_W-1:0];
    end
  end

  // A free slot if there is one, else the oldest allocation that is not pinned.
  assign choice_from = |empty ? empty : |(evictable & after_ptr) ? (evictable & after_ptr) : evictable;
  assign choice      = choice_from & (~choice_from + 1'b1);
  assign victim_ok   = |choice_from;

  always_comb begin
    lk_slot     = '0;
    victim_slot = '0;
    for (int s = 0; s < SLOTS; s++) begin
      if (hit[s])    lk_slot = lk_slot | SLOT_W'(s);
      if (choice[s]) victim_slot = victim_slot | SLOT_W'(s);
    end
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) ptr_q <= '0;
    else if (alloc) ptr_q <= victim_slot + 1'b1;
  end

  assign lk_hit        = |hit;
  assign lk_open       = |(hit & ready & ~waited);
  assign lk_writing    = |(hit & writing);
  assign lk_reading    = |(hit & reading);
  assign victim_dirty  = |(choice & dirty);
  assign victim_region = region_q[victim_slot];
  assign victim_index  = INDEX_W'(index_q[victim_slot]);
  assign head_ready    = ready[head_slot];
  assign head_writing  = writing[head_slot];
  assign head_reading  = reading[head_slot];

  `NF_ASSERT(OneHit_A, $onehot0(hit))
  `NF_ASSERT_NEVER(AllocBlind_A, alloc && (!victim_ok || lk_hit))
endmodule

`default_nettype wire
