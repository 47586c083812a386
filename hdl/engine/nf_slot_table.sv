// SPDX-License-Identifier: Apache-2.0
// Which line lives in which on-chip slot: tags, life cycle and victim choice.
//
// A slot is empty, filling (allocated, its state is being fetched) or ready. At most one action is
// done in a clock (see Action below). A slot with waiters (`waited`: operations parked until it is
// ready) or with FP32 writes or gathers in progress is pinned: it is never a victim. `invalidate`
// drops every slot of a region without writing it back.
//
// Tags are compared with `look_line` in the clock of `look`. From the next clock on, until the next
// `look`, `lk_*` describe that line, also if its slot was taken meanwhile or if it has got one:
// `lk_line` is the same line then. The victim is chosen one clock before it is used: `victim_*` are
// that choice, and there is none (`victim_ok` is 0) if the slot was pinned since. `victim_fresh`:
// the victim was hit, and modified, in the clock before.

`default_nettype none
`include "nf_assert.svh"

module nf_slot_table
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
  parameter int SLOTS   = 64,
  parameter int REGIONS = 8,
  parameter int KEY_W   = 19   // index bits that can differ between two lines
) (
  input  wire logic                     clk,    // clock, rising edge
  input  wire logic                     rst_n,  // asynchronous reset, active low

  // Lookup of a line.
  input  wire logic                     look,        // compare the tags with `look_line`
  input  wire line_id_t                 look_line,   // line to look up
  input  wire line_id_t                 lk_line,     // the same line from the next cycle on
  output logic                          lk_hit,      // it has a slot
  output logic [$clog2(SLOTS)-1:0]      lk_slot,     // that slot
  output logic                          lk_open,     // ready and nobody waits for it
  output logic                          lk_writing,  // FP32 writes under way
  output logic                          lk_reading,  // FP32 gathers under way
  output logic                          lk_kept,     // its FP32 sum is kept
  output logic                          lk_victim,   // it is the victim

  // The slot that a miss would take.
  output logic                          victim_ok,  // there is one
  output logic                          victim_fresh,  // modified in the clock before
  output logic [$clog2(SLOTS)-1:0]      victim_slot,   // slot that a miss would take
  output logic                          victim_dirty,  // its line must be written back
  output logic                          victim_kept,   // with a kept sum
  output line_id_t                      victim_line,   // line in it

  // State of all slots, one bit each.
  input  wire logic [SLOTS-1:0]         waited,   // operations wait for the slot
  output logic [SLOTS-1:0]              ready,    // the state is in the slot
  output logic [SLOTS-1:0]              writing,  // FP32 writes are under way
  output logic [SLOTS-1:0]              reading,  // FP32 gathers are under way
  output logic [SLOTS-1:0]              kept,     // an FP32 sum is kept

  // Action.
  input  wire logic                     alloc,        // victim_slot takes lk_line
  input  wire logic                     alloc_ready,  // with alloc: there is nothing to bring
  input  wire logic                     filled,       // fill_slot becomes ready
  input  wire logic [$clog2(SLOTS)-1:0] fill_slot,    // slot that is filled
  input  wire logic [$clog2(SLOTS)-1:0] other_slot,   // slot of an action that is no lookup
  input  wire logic                     at_hit,       // the action is on lk_slot, else, if it does
                                                      // not alloc, on other_slot:
  input  wire logic                     keep,         // a sum is kept from now on
  input  wire logic                     unkeep,       // no longer
  input  wire logic                     touch,        // its state is modified
  input  wire logic                     write_start,  // one more FP32 write under way
  input  wire logic                     write_end,       // an FP32 write has ended
  input  wire logic [$clog2(SLOTS)-1:0] write_end_slot,  // its slot
  input  wire logic                     read_start,   // one more FP32 gather under way
  input  wire logic                     read_end,        // an FP32 gather has ended
  input  wire logic [$clog2(SLOTS)-1:0] read_end_slot,   // its slot
  input  wire logic                     damage,       // the state of damage_slot was lost
  input  wire logic [$clog2(SLOTS)-1:0] damage_slot,     // that slot
  input  wire logic [REGIONS-1:0]       invalidate       // regions whose slots are dropped
);
  localparam int SLOT_W = $clog2(SLOTS);
  localparam int PEND_W = 8;

  if (SLOTS < 4 || SLOTS > 256 || (1 << SLOT_W) != SLOTS) begin : g_bad_slots
    initial $fatal(1, "nf_slot_table: SLOTS must be a power of two, 4..256");
  end

  localparam int REGION_W   = (REGIONS > 1) ? $clog2(REGIONS) : 1;
  localparam int LINE_KEY_W = REGION_W + KEY_W;

  logic [SLOTS-1:0]  used_q, ready_q, dirty_q, kept_q;
  logic [SLOTS-1:0]  hit, same, same_q, moved_q, drop, taken, done, touched, keeps, unkeeps;
  logic [SLOTS-1:0]  at, damaged;
  logic [SLOTS-1:0]  pinned, free, evictable, preferred, choice_from, next, victim_q;
  logic [LINE_KEY_W-1:0]  key_q [SLOTS];       // compared in every clock
  logic [LINE_KEY_W-1:0]  key_again [SLOTS];   // the same in a RAM, read by number
  logic [LINE_KEY_W-1:0]  victim_key, lk_key, look_key;
  logic [SLOT_W-1:0] victim_slot_q, next_slot;
  logic              again_q, choose;

  // One bit a slot in each vector: what a clock does to the few slots that it names is masked in.
  // (Not a shift of the enable itself: 0 shifted by an unknown number would be unknown.)
  assign taken   = alloc  ? victim_q : '0;
  assign done    = filled ? SLOTS'(1) << fill_slot   : '0;
  assign at      = alloc ? victim_q : at_hit ? hit : SLOTS'(1) << other_slot;
  assign touched = touch  ? at : '0;
  assign damaged = damage ? SLOTS'(1) << damage_slot : '0;
  assign keeps   = keep   ? at : '0;
  assign unkeeps = unkeep ? at : '0;

  always_comb begin
    drop = '0;
    if (|invalidate) begin
      for (int s = 0; s < SLOTS; s++) begin
        drop[s] = invalidate[32'(key_q[s][KEY_W +: REGION_W]) % REGIONS];
      end
    end
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      used_q  <= '0;
      ready_q <= '0;
      dirty_q <= '0;
      kept_q  <= '0;
    end else begin
      used_q  <= (used_q | taken) & ~drop;
      ready_q <= ((ready_q | done) & ~taken | (alloc_ready ? taken : '0)) & ~drop;
      dirty_q <= (dirty_q & ~taken | touched | damaged) & ~drop;
      kept_q  <= (kept_q | keeps) & ~unkeeps & ~taken;
    end
  end

  // ---- FP32 writes and gathers under way: counted a clock later, told at once -------------------
  logic [SLOTS-1:0]  writes, gathers, write_starts_q, read_starts_q;
  logic [SLOT_W-1:0] start_slot_q, write_end_slot_q, read_end_slot_q;
  logic              write_start_q, write_end_q, read_start_q, read_end_q, touch_hit_q;

  assign writing = writes | write_starts_q;
  assign reading = gathers | read_starts_q;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      {write_start_q, write_end_q, read_start_q, read_end_q} <= '0;
      touch_hit_q    <= 1'b0;
      write_starts_q <= '0;
      read_starts_q  <= '0;
    end else begin
      {write_start_q, write_end_q} <= {write_start, write_end};
      {read_start_q, read_end_q}   <= {read_start, read_end};
      touch_hit_q    <= touch && at_hit;
      write_starts_q <= write_start ? at : '0;
      read_starts_q  <= read_start ? at : '0;
    end
  end

  always_ff @(posedge clk) begin
    start_slot_q     <= alloc ? victim_slot : at_hit ? lk_slot : other_slot;
    write_end_slot_q <= write_end_slot;
    read_end_slot_q  <= read_end_slot;
  end

  nf_slot_count #(.SLOTS(SLOTS), .WIDTH(PEND_W)) u_writes (
    .clk, .rst_n, .up (write_start_q), .up_slot (start_slot_q), .down (write_end_q),
    .down_slot (write_end_slot_q), .busy (writes)
  );
  nf_slot_count #(.SLOTS(SLOTS), .WIDTH(PEND_W)) u_gathers (
    .clk, .rst_n, .up (read_start_q), .up_slot (start_slot_q), .down (read_end_q),
    .down_slot (read_end_slot_q), .busy (gathers)
  );

  // ---- lookup: corrected one clock later by the decision in the clock of `look` -----------------
  assign lk_key   = {lk_line.region[REGION_W-1:0], lk_line.index[KEY_W-1:0]};
  assign look_key = {look_line.region[REGION_W-1:0], look_line.index[KEY_W-1:0]};

  always_ff @(posedge clk) begin
    if (alloc) begin
      key_q[victim_slot]     <= lk_key;
      key_again[victim_slot] <= lk_key;
    end
  end

  for (genvar s = 0; s < SLOTS; s++) begin : g_same
    assign same[s] = (key_q[s] == look_key);
  end

  always_ff @(posedge clk) begin
    if (look) begin
      same_q  <= same;
      again_q <= (look_key == lk_key);
    end
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) moved_q <= '0;
    else if (look) moved_q <= taken;
  end

  assign hit = used_q & (again_q ? (same_q | moved_q) : (same_q & ~moved_q));

  // ---- victim: a free slot if there is one, else the oldest allocation that is not pinned -------
  // A slot that is filling is, by the operation that missed. The choice is made while the last one
  // may be taken, so that there is one in every clock. It is made again where it was pinned since,
  // and where a commit has freed slots.
  assign pinned      = waited | writing | reading;
  assign free        = ~used_q & ~victim_q;
  assign evictable   = ~pinned & ~victim_q;
  assign preferred   = evictable & ({SLOTS{1'b1}} << victim_slot_q << 1);
  assign choice_from = |free ? free : |preferred ? preferred : evictable;
  assign next        = choice_from & (~choice_from + 1'b1);
  assign choose      = alloc || !victim_ok;
  assign victim_ok   = |(victim_q & ~pinned);
  // Slots of all other actions were pinned when the victim was chosen.
  assign victim_fresh = victim_ok && touch_hit_q && (start_slot_q == victim_slot_q);

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      victim_q      <= '0;
      victim_slot_q <= SLOT_W'(SLOTS - 1);
    end else if (|invalidate) begin
      victim_q <= '0;
    end else if (choose) begin
      victim_q <= next;
      if (|next) victim_slot_q <= next_slot;
    end
  end

  for (genvar b = 0; b < SLOT_W; b++) begin : g_encode
    // Slots whose number has bit b: 2^b without, 2^b with, and so on.
    localparam logic [SLOTS-1:0] WITH = {(SLOTS >> (b + 1)){{(1 << b){1'b1}}, {(1 << b){1'b0}}}};
    assign lk_slot[b]   = |(hit & WITH);
    assign next_slot[b] = |(next & WITH);
  end

  assign lk_hit        = |hit;
  assign lk_open       = |(hit & ~waited);  // somebody waits for a slot that is not ready
  assign lk_writing    = |(hit & writing);
  assign lk_reading    = |(hit & reading);
  assign lk_kept       = |(hit & kept_q);
  assign lk_victim     = |(hit & victim_q);
  assign victim_slot   = victim_slot_q;
  assign victim_dirty  = |(victim_q & dirty_q);
  assign victim_kept   = |(victim_q & kept_q);
  assign victim_key    = key_again[victim_slot];
  assign victim_line   = make_line_id(4'(victim_key[KEY_W +: REGION_W]),
                                      INDEX_W'(victim_key[KEY_W-1:0]));
  assign ready         = ready_q;
  assign kept          = kept_q;

  `NF_ASSERT_NEVER(DropBusy_A, |(drop & (waited | writing | reading)))
  `NF_ASSERT_NEVER(FillingAlone_A, |(used_q & ~ready_q & ~waited))
  `NF_ASSERT_NEVER(KeptUnderStore_A, |(kept_q & writing))
  `NF_ASSERT(OneHit_A, $onehot0(hit))
  `NF_ASSERT_NEVER(AllocBlind_A, alloc && (!victim_ok || lk_hit))
  `NF_ASSERT_NEVER(VictimBusy_A, alloc && |(victim_q & used_q & ~ready_q))
  `NF_ASSERT_NEVER(VictimPinned_A, alloc && |(victim_q & (waited | writing | reading)))
  `NF_ASSERT_NEVER(VictimFresh_A, alloc && victim_fresh)
  `NF_ASSERT_NEVER(FreeFirst_A, alloc && |(victim_q & used_q) && !(&used_q))
  `NF_ASSERT(OneChoice_A, !alloc || $onehot(victim_q))
  `NF_ASSERT_NEVER(LifeCycle_A, |(~used_q & (ready_q | dirty_q | waited | writing | reading)))
  `NF_ASSERT_NEVER(FilledTwice_A, |(done & (~used_q | ready_q)))
  `NF_ASSERT_NEVER(TouchOfNothing_A, |(touched & ~(used_q | taken)))
  `NF_ASSERT_NEVER(GatherOverWrite_A, read_start && |(at & writing))
  `NF_ASSERT_NEVER(WriteOverGather_A, write_start && |(at & reading))
endmodule

`default_nettype wire
