// SPDX-License-Identifier: Apache-2.0
// Which line lives in which on-chip slot: tags, life cycle and victim choice.
//
// A line belongs to one set of WAYS slots (nf_set_of). With WAYS = SLOTS there is one set: any line
// may be in any slot. Slot number: WAYS * set + way.
//
// A slot with a pin (nf_slot_pins) is never a victim. At most one action is done in a clock (see
// Action below).
//
// `invalidate` drops every slot of a region without writing it back. A tag holds a bit that the
// commits of its region flip, so that the lines of the old round are found no more. Their slots
// count as free from then on. They are cleared set by set in clocks in which no operation waits to
// be looked up. `swept`: all are. The next commit of any region has to wait until then. A reset is
// followed by such a sweep, which clears all sets; nothing is looked up before it has ended.
//
// Tags are compared with `look_line` in the clock of `look`. From the next clock on, until the
// next `look`, `lk_*` and `victim_*` describe that line and its set, also if its slot was taken
// meanwhile or if it has got one: `lk_line` is the same line then. The victim is the slot that a
// miss of that line takes: there is none (`victim_ok` is 0) where all are pinned. `victim_fresh`:
// the victim was modified or filled in the clock before. `ask_ok`: a miss of `ask_line` would find
// a victim in the next clock, also if the action of this clock pins the slot that `lk_line` hits
// (`pins`).

`default_nettype none
`include "nf_assert.svh"

module nf_slot_table
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
  parameter int SLOTS   = 256,
  parameter int WAYS    = 8,  // slots of a set
  parameter int REGIONS = 8,
  parameter int KEY_W   = 19,  // index bits that can differ between two lines
  parameter int SET_B   = (SLOTS > WAYS) ? $clog2(SLOTS / WAYS) : 1
) (
  input  wire logic                     clk,    // clock, rising edge
  input  wire logic                     rst_n,  // asynchronous reset, active low

  // Lookup of a line.
  input  wire logic                     want,        // `look` may come in this clock
  input  wire logic                     look,        // compare the tags with `look_line`
  input  wire line_id_t                 look_line,   // line to look up
  input  wire line_id_t                 lk_line,     // the same line from the next cycle on
  output logic                          lk_hit,      // it has a slot
  output logic [$clog2(SLOTS)-1:0]      lk_slot,     // that slot
  output logic [SET_B-1:0]              lk_set,      // its set
  output logic [WAYS-1:0]               hit,         // its slot there, one-hot or none
  output logic                          lk_kept,     // its FP32 sum is kept

  // Is there a slot for another line?
  input  wire line_id_t                 ask_line,  // that line
  output logic [SET_B-1:0]              ask_set,   // its set
  input  wire logic [WAYS-1:0]          ask_pinned,  // slots of the set that have a pin
  input  wire logic                     pins,      // the slot that `lk_line` hits may get one
  output logic                          ask_ok,    // there is one

  // The slot that a miss would take.
  input  wire logic [WAYS-1:0]          row_pinned,  // slots of `lk_set` that have a pin
  output logic                          victim_ok,  // there is one
  output logic [WAYS-1:0]               pick,       // its place in the set, one-hot
  output logic                          victim_fresh,  // modified or filled in the clock before
  output logic [$clog2(SLOTS)-1:0]      victim_slot,   // slot that a miss would take
  output logic                          victim_dirty,  // its line must be written back
  output logic                          victim_kept,   // with a kept sum
  output line_id_t                      victim_line,   // line in it

  // Action.
  input  wire logic                     alloc,        // victim_slot takes lk_line
  input  wire logic [$clog2(SLOTS)-1:0] other_slot,   // slot of an action that is no lookup
  output logic                          other_kept,   // with a kept sum
  input  wire logic                     at_hit,       // the action is on lk_slot, else, if it does
                                                      // not alloc, on other_slot:
  input  wire logic                     keep,         // a sum is kept from now on
  input  wire logic                     unkeep,       // no longer
  input  wire logic                     touch,        // its state is modified
  input  wire logic                     fills,        // its state comes from memory
  input  wire logic                     damage,       // the state of damage_slot was lost
  input  wire logic [$clog2(SLOTS)-1:0] damage_slot,     // that slot
  input  wire logic [REGIONS-1:0]       invalidate,      // regions whose slots are dropped
  output logic                          swept            // all that were dropped are free
);
  localparam int SLOT_W = $clog2(SLOTS);
  localparam int WAY_W  = (WAYS > 1) ? $clog2(WAYS) : 1;
  localparam int SETS   = SLOTS / WAYS;
  localparam int SET_W  = $clog2(SETS);

  if (SLOTS < 4 || SLOTS > 256 || (1 << SLOT_W) != SLOTS) begin : g_bad_slots
    initial $fatal(1, "nf_slot_table: SLOTS must be a power of two, 4..256");
  end
  if (SET_W >= KEY_W) begin : g_bad_sets
    initial $fatal(1, "nf_slot_table: SLOTS / WAYS must be less than the lines of a region");
  end
  if (WAYS < 2 || WAYS > SLOTS || (1 << WAY_W) != WAYS) begin : g_bad_ways
    initial $fatal(1, "nf_slot_table: WAYS must be a power of two, 2..SLOTS");
  end

  localparam int REGION_W = (REGIONS > 1) ? $clog2(REGIONS) : 1;
  // The set of a line and its upper index bits give the lowest ones: a tag does without those.
  localparam int HIGH_W   = KEY_W - SET_W;
  localparam int SLOT_TAG_W = 1 + REGION_W + HIGH_W;

  logic [WAYS-1:0]   used_q [SETS], kept_q [SETS], dirty_q [SETS], lost_q [SETS];
  logic [WAYS-1:0]   at_way, at_kept, at_dirty, at_lost, damage_way, damage_dirty, damage_lost;
  logic [WAYS-1:0]   same, stale, same_q, moved_q, gone_q, moved;
  logic [WAYS-1:0]   swept_used, row_used, row_kept, row_dirty;
  logic [WAYS-1:0]   free, evictable, preferred, choice_from;
  logic [REGIONS-1:0]    round_q;             // flips with each commit
  logic [SLOT_TAG_W-1:0]      look_tag, lk_tag;
  logic [SLOT_TAG_W-2:0]      tag_again [SLOTS], victim_tag;  // as in g_way, read by slot
  logic [WAY_W-1:0]      last_way_q [SETS];    // taken last
  logic [SET_B-1:0]      look_set, lk_set_q, row, sweep_q, high_set, at_set, damage_set;
  logic [SLOT_W-1:0]     lk_base, at_slot, at_slot_q;
  line_id_t              high_line;
  logic [INDEX_W-1:0]    low_index;
  logic [WAY_W-1:0]      hit_way, pick_way, last_way;
  logic                  again_q, sweeping_q, clearing_q, sweeps, last_row, wrote_q;

  // Number of the first slot of a set, set of a slot, and place of a slot in its set, one-hot.
  function automatic logic [SLOT_W-1:0] base_of(input logic [SET_B-1:0] number);
    return SLOT_W'(32'(number) * WAYS);
  endfunction

  function automatic logic [SET_B-1:0] set_of(input logic [SLOT_W-1:0] slot);
    return SET_B'(32'(slot) / WAYS);
  endfunction

  function automatic logic [WAYS-1:0] way_of(input logic [SLOT_W-1:0] slot);
    return WAYS'(1) << (32'(slot) % WAYS);
  endfunction

  // ---- state of the slots: RAMs with a row for each set, and a bit of it for each way -----------
  // A line must be written back if its bits in dirty_q and lost_q differ: the action writes one of
  // these RAMs and damage the other one, so that each has one write port. Damage in the clock of an
  // action on the same slot adds nothing: the slot is modified anyway, or its line is evicted.
  assign at_slot    = alloc ? victim_slot : at_hit ? lk_slot : other_slot;
  assign at_set     = set_of(at_slot);
  assign at_way     = way_of(at_slot);
  assign at_kept    = kept_q[at_set];
  assign at_dirty   = dirty_q[at_set];
  assign at_lost    = lost_q[at_set];
  assign damage_set = set_of(damage_slot);
  assign damage_way = way_of(damage_slot);
  assign damage_dirty = dirty_q[damage_set];
  assign damage_lost  = lost_q[damage_set];

  // No reset: a slot has a meaning from its allocation on, which writes its bits.
  always_ff @(posedge clk) begin
    if (alloc || keep || unkeep) begin
      kept_q[at_set] <= (keep && !unkeep && !alloc) ? at_kept | at_way : at_kept & ~at_way;
    end
    if (alloc || touch) begin
      dirty_q[at_set] <= (at_dirty & ~at_way) | (at_way & (touch ? ~at_lost : at_lost));
    end
    if (clearing_q) begin
      lost_q[sweep_q] <= '0;
    end else if (damage && !((alloc || touch) && at_slot == damage_slot)) begin
      lost_q[damage_set] <= (damage_lost & ~damage_way) | (damage_way & ~damage_dirty);
    end
  end

  // ---- lookup: corrected one clock later by the decision in the clock of `look` -----------------
  if (SETS == 1) begin : g_one_set
    assign {look_set, ask_set, high_set} = '0;
  end else begin : g_set
    nf_set_of #(.SET_W(SET_W)) u_look (.line (look_line), .set (look_set));
    nf_set_of #(.SET_W(SET_W)) u_ask (.line (ask_line), .set (ask_set));
    nf_set_of #(.SET_W(SET_W)) u_high (.line (high_line), .set (high_set));
  end

  assign look_tag = {round_q[32'(look_line.region) % REGIONS], look_line.region[REGION_W-1:0],
                     look_line.index[KEY_W-1:SET_W]};
  assign lk_tag   = {round_q[32'(lk_line.region) % REGIONS], lk_line.region[REGION_W-1:0],
                     lk_line.index[KEY_W-1:SET_W]};
  assign lk_base  = base_of(lk_set_q);
  assign row      = want ? look_set : sweep_q;
  assign swept_used = used_q[row];

  for (genvar w = 0; w < WAYS; w++) begin : g_way
    logic [SLOT_TAG_W-1:0] tags [SETS];
    logic [SLOT_TAG_W-1:0] tag;
    logic [REGION_W-1:0]   region;
    always_ff @(posedge clk) begin
      if (alloc && pick[w]) tags[lk_set_q] <= lk_tag;
    end
    assign tag      = tags[row];
    assign region   = tag[HIGH_W +: REGION_W];
    assign same[w]  = (tag == look_tag);
    assign stale[w] = swept_used[w]
                      && (tag[SLOT_TAG_W-1] != round_q[32'(region) % REGIONS]);
  end

  always_ff @(posedge clk) begin
    if (alloc) begin
      tag_again[victim_slot] <= lk_tag[SLOT_TAG_W-2:0];
      last_way_q[lk_set_q]   <= pick_way;
    end
    if (look) begin
      same_q   <= same;
      again_q  <= (look_tag == lk_tag) && (look_set == lk_set_q);
      lk_set_q <= look_set;
    end
    gone_q <= look ? stale & ~moved : alloc ? gone_q & ~pick : gone_q;
  end

  assign moved = (alloc && look_set == lk_set_q) ? pick : '0;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) moved_q <= '0;
    else if (look) moved_q <= moved;
  end

  assign row_used = used_q[lk_set_q] & ~gone_q;
  assign row_kept  = kept_q[lk_set_q];
  assign row_dirty = dirty_q[lk_set_q] ^ lost_q[lk_set_q];
  assign hit      = row_used & (again_q ? (same_q | moved_q) : (same_q & ~moved_q));

  // ---- rounds: what a commit has dropped is freed set by set ------------------------------------
  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      round_q    <= '0;
      sweep_q    <= '0;
      sweeping_q <= 1'b1;
      clearing_q <= 1'b1;
    end else if (|invalidate) begin
      round_q    <= round_q ^ invalidate;
      sweep_q    <= '0;
      sweeping_q <= 1'b1;
    end else if (sweeps) begin
      sweep_q    <= last_row ? '0 : sweep_q + 1'b1;
      sweeping_q <= !last_row;
      clearing_q <= clearing_q && !last_row;
    end
  end

  assign sweeps = sweeping_q && !want && !alloc;

  always_ff @(posedge clk) begin
    if (alloc) begin
      used_q[lk_set_q] <= row_used | pick;
    end else if (sweeps) begin
      used_q[sweep_q] <= clearing_q ? '0 : swept_used & ~stale;
    end
  end

  assign last_row = (32'(sweep_q) == SETS - 1);
  assign swept    = !sweeping_q;

  // ---- victim: a free slot if there is one, else the next one in turn that is not pinned --------
  assign last_way    = last_way_q[lk_set_q];
  assign free        = ~row_used;
  assign evictable   = ~row_pinned;
  assign preferred   = evictable & ({WAYS{1'b1}} << last_way << 1);
  assign choice_from = |free ? free : |preferred ? preferred : evictable;
  assign pick        = choice_from & (~choice_from + 1'b1);
  assign victim_ok   = |evictable;  // a free slot is not pinned
  assign victim_fresh = victim_ok && wrote_q && (at_slot_q == victim_slot);
  assign ask_ok      = |(~ask_pinned & ~((pins && ask_set == lk_set_q) ? hit : '0));

  always_ff @(posedge clk) begin
    wrote_q   <= touch || fills;
    at_slot_q <= at_slot;
  end

  for (genvar b = 0; b < WAY_W; b++) begin : g_encode
    // Ways whose number has bit b: 2^b without, 2^b with, and so on.
    localparam logic [WAYS-1:0] WITH = {(WAYS >> (b + 1)){{(1 << b){1'b1}}, {(1 << b){1'b0}}}};
    assign hit_way[b]  = |(hit & WITH);
    assign pick_way[b] = |(pick & WITH);
  end

  assign lk_hit       = |hit;
  assign lk_slot      = lk_base | SLOT_W'(hit_way);
  assign lk_set       = lk_set_q;
  assign lk_kept      = |(hit & row_kept);
  assign other_kept   = |(kept_q[set_of(other_slot)] & way_of(other_slot));
  assign victim_slot  = lk_base | SLOT_W'(pick_way);
  assign victim_dirty = |(pick & row_used & row_dirty);
  assign victim_kept  = |(pick & row_used & row_kept);

  // The lowest index bits are those that bring the line of the tag to the set.
  assign victim_tag = tag_again[victim_slot];
  assign high_line  = make_line_id(4'(victim_tag[HIGH_W +: REGION_W]),
                                   INDEX_W'(victim_tag[HIGH_W-1:0]) << SET_W);
  assign low_index   = (SET_W == 0) ? '0 : INDEX_W'(high_set ^ lk_set_q);
  assign victim_line = make_line_id(high_line.region, high_line.index | low_index);

  `NF_ASSERT_NEVER(LookUnwanted_A, look && !want)
  `NF_ASSERT_NEVER(LookUncleared_A, want && clearing_q)
  `NF_ASSERT(OneHit_A, clearing_q || $onehot0(hit))
  `NF_ASSERT_NEVER(AllocBlind_A, alloc && (!victim_ok || lk_hit))
  `NF_ASSERT_NEVER(VictimPinned_A, alloc && |(pick & row_pinned))
  `NF_ASSERT_NEVER(VictimFresh_A, alloc && victim_fresh)
  `NF_ASSERT_NEVER(FreeFirst_A, alloc && |(pick & row_used) && !(&row_used))
  `NF_ASSERT_NEVER(FreePinned_A, |(~row_used & row_pinned))
  `NF_ASSERT(OneChoice_A, !alloc || $onehot(pick))
  `NF_ASSERT_NEVER(CommitUnswept_A, |invalidate && sweeping_q)
`ifdef NF_CHECKED
  logic [SETS-1:0] set_full;
  for (genvar s = 0; s < SETS; s++) begin : g_full
    assign set_full[s] = &used_q[s];
  end
  logic at_used;
  assign at_used = |(used_q[at_set] & at_way);
`endif
  `NF_ASSERT_NEVER(TouchOfNothing_A, touch && !alloc && !at_used)
endmodule

`default_nettype wire
