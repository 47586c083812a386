// SPDX-License-Identifier: Apache-2.0
// nf_slot_table against a reference of one line, which is chosen freely: a line is in one slot at
// most, where it is found; it leaves by an allocation that tells it as the victim, dirty if it was
// modified since it came, or by the invalidation of its region; and not while somebody needs it.
//
// Assumed is what the engine keeps to: one action on a slot at a time, allocations for a line that
// was looked at, where there is no hit and a slot to take, pins of slots that hold a line, commits
// (`invalidate`) while there is no pin and the slots of the last commit are free, and no lookup
// before the sweep that follows a reset has ended.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_slot_table
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
  parameter int SLOTS   = 4,
  parameter int WAYS    = 4,
  parameter int REGIONS = 2,
  parameter int KEY_W   = 3
) (
  input wire logic                     clk,
  input wire logic                     want,
  input wire logic                     look,
  input wire logic [3:0]               look_region,
  input wire logic [KEY_W-1:0]         look_index,
  input wire logic [3:0]               ask_region,
  input wire logic [KEY_W-1:0]         ask_index,
  input wire logic                     pins,
  input wire logic [SLOTS-1:0]         pinned,
  input wire logic                     alloc,
  input wire logic                     touch,
  input wire logic                     fills,
  input wire logic                     at_hit,
  input wire logic [$clog2(SLOTS)-1:0] other_slot,
  input wire logic                     damage,
  input wire logic [$clog2(SLOTS)-1:0] damage_slot,
  input wire logic [REGIONS-1:0]       invalidate,
  input wire logic [3:0]               my_region,  // the line that is followed
  input wire logic [KEY_W-1:0]         my_index
);
  localparam int SLOT_W = $clog2(SLOTS);

  localparam int SETS   = SLOTS / WAYS;
  localparam int SET_W  = $clog2(SETS);
  localparam int SET_B  = (SETS > 1) ? SET_W : 1;

  logic              lk_hit, lk_kept, ask_ok, swept, other_kept;
  logic [SET_B-1:0]  lk_set, ask_set;
  logic [WAYS-1:0]   hit, pick, row_pinned, ask_pinned;
  logic              victim_ok, victim_fresh, victim_dirty, victim_kept;
  logic [SLOT_W-1:0] lk_slot, victim_slot, touch_slot;
  line_id_t          look_line, lk_line, ask_line, victim_line;
  logic              asked_q;  // lk_line was looked at, and has got no slot since
  logic [3:0]        lk_region;
  logic [KEY_W-1:0]  lk_index;

  assign look_line  = make_line_id(look_region, INDEX_W'(look_index));
  assign lk_line    = make_line_id(lk_region, INDEX_W'(lk_index));
  assign ask_line   = make_line_id(ask_region, INDEX_W'(ask_index));
  assign row_pinned = pinned[32'(lk_set)*WAYS +: WAYS];
  assign ask_pinned = pinned[32'(ask_set)*WAYS +: WAYS];
  assign touch_slot = alloc ? victim_slot : at_hit ? lk_slot : other_slot;

  `NF_FORMAL_RESET

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) asked_q <= 1'b0;
    else        asked_q <= look || (asked_q && !alloc);
  end

  always_ff @(posedge clk) begin
    if (look) {lk_region, lk_index} <= {look_region, look_index};
  end

  nf_slot_table #(.SLOTS(SLOTS), .WAYS(WAYS), .REGIONS(REGIONS), .KEY_W(KEY_W)) dut (
    .clk, .rst_n, .want, .look, .look_line, .lk_line, .lk_hit, .lk_slot, .lk_set, .hit, .lk_kept,
    .ask_line, .ask_set, .ask_pinned, .pins, .ask_ok, .row_pinned, .victim_ok, .pick,
    .victim_fresh, .victim_slot, .victim_dirty, .victim_kept, .victim_line, .alloc, .keep(1'b0),
    .unkeep(1'b0), .touch, .fills, .at_hit, .other_slot, .other_kept, .damage, .damage_slot,
    .invalidate, .swept
  );

  // ---- what the engine keeps to ----------------------------------------------------------------
  localparam int REGION_W = (REGIONS > 1) ? $clog2(REGIONS) : 1;
  localparam int HIGH_W   = KEY_W - SET_W;
  localparam int TAG_BITS = 1 + REGION_W + HIGH_W;  // round, region, high bits of the index
  logic [SLOTS-1:0] used, live;         // live: of the round of its region
  logic [3:0]       regions [SLOTS];
  logic [KEY_W-1:0] indexes [SLOTS];
  for (genvar s = 0; s < SLOTS; s++) begin : g_line
    logic [TAG_BITS-1:0] tag;
    // Rows that were not cleared since the reset mean nothing.
    assign used[s]    = dut.used_q[s/WAYS][s%WAYS]
                        && !(dut.clearing_q && s / WAYS >= 32'(dut.sweep_q));
    assign tag        = dut.g_way[s%WAYS].tags[s/WAYS];
    assign regions[s] = 4'(tag[HIGH_W +: REGION_W]);
    assign live[s]    = used[s] && tag[TAG_BITS-1] == dut.round_q[regions[s] % REGIONS];
    if (SETS == 1) begin : g_one_set
      assign indexes[s] = tag[KEY_W-1:0];
    end else begin : g_set
      logic [SET_W-1:0] set;
      line_id_t         high;
      assign high       = make_line_id(regions[s], INDEX_W'(tag[HIGH_W-1:0]) << SET_W);
      assign indexes[s] = high.index[KEY_W-1:0] | KEY_W'(set ^ SET_W'(s / WAYS));
      nf_set_of #(.SET_W(SET_W)) u_high (.line (high), .set);
    end
  end

  `NF_ASSUME(RegionsThatThereAre_M, 32'(look_region) < REGIONS && 32'(my_region) < REGIONS
                                   && 32'(ask_region) < REGIONS)
  `NF_ASSUME(LooksWhatIsWanted_M, want || !look)
  `NF_ASSUME(LooksWhatIsCleared_M, !want || !dut.clearing_q)
  `NF_ASSUME_KEEPS(OneLine_M, 1'b1, {my_region, my_index})
  `NF_ASSUME(AllocatesForMisses_M, !alloc || (asked_q && victim_ok && !victim_fresh && !lk_hit))
  `NF_ASSUME(HitsWhatIsThere_M, !at_hit || (asked_q && lk_hit && !alloc))
  `NF_ASSUME(TouchesWhatIsThere_M, !touch || alloc || live[touch_slot])
  `NF_ASSUME(DamagesWhatIsThere_M, !damage || live[damage_slot])
  `NF_ASSUME(PinsWhatIsThere_M, (pinned & ~live) == '0)
  `NF_ASSUME(CommitsWhenIdle_M, invalidate == '0 || (pinned == '0 && !look && !asked_q && !alloc &&
                                !touch && !damage && swept))

  // ---- reference of the line that is followed --------------------------------------------------
  logic              here_q, dirty_q, was_evicted_q;
  logic [SLOT_W-1:0] slot_q;
  logic              looked_up, comes, leaves, mine_is_victim;

  assign looked_up      = asked_q && lk_region == my_region && lk_index == my_index;
  assign comes          = alloc && looked_up;
  assign mine_is_victim = victim_line.region == my_region &&
                          victim_line.index[KEY_W-1:0] == my_index && live[victim_slot];
  assign leaves         = here_q && (alloc && victim_slot == slot_q ||
                                     invalidate[32'(my_region) % REGIONS]);

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      here_q        <= 1'b0;
      dirty_q       <= 1'b0;
      slot_q        <= '0;
      was_evicted_q <= 1'b0;
    end else begin
      if (leaves) here_q <= 1'b0;
      if (comes) begin
        here_q  <= 1'b1;
        slot_q  <= victim_slot;
        dirty_q <= touch;
      end else if ((touch && touch_slot == slot_q) || (damage && damage_slot == slot_q)) begin
        dirty_q <= 1'b1;
      end
      if (leaves && alloc && dirty_q) was_evicted_q <= 1'b1;
    end
  end

  `NF_ASSERT_NEVER(NotFound_A, looked_up && here_q && !(lk_hit && lk_slot == slot_q))
  `NF_ASSERT_NEVER(FoundThoughGone_A, looked_up && !here_q && lk_hit)
  `NF_ASSERT_NEVER(DirtyLost_A, leaves && alloc && dirty_q && !(victim_dirty && mine_is_victim))
  `NF_ASSERT_NEVER(DroppedEvicted_A, alloc && victim_dirty && !live[victim_slot])
  `NF_ASSERT_NEVER(EvictedInUse_A, leaves && alloc && pinned[slot_q])
  `NF_ASSERT_NEVER(AnotherSlotTold_A, alloc && mine_is_victim && !(here_q && victim_slot == slot_q))

  // A slot that was modified or filled in the clock before is no victim: S2 lacks its state.
  logic              fresh_q;
  logic [SLOT_W-1:0] fresh_slot_q;
  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) fresh_q <= 1'b0;
    else        fresh_q <= touch || fills;
  end
  always_ff @(posedge clk) fresh_slot_q <= touch_slot;
  `NF_ASSERT_NEVER(FreshLeaves_A, alloc && fresh_q && victim_slot == fresh_slot_q)

  // ---- what induction needs to know of the inside -----------------------------------------------
  for (genvar s = 0; s < SLOTS; s++) begin : g_slot
    `NF_ASSERT(Mine_A, (live[s] && regions[s] == my_region && indexes[s] == my_index) ==
                       (here_q && 32'(slot_q) == s))
    `NF_ASSERT_NEVER(Stale_A, used[s] && !live[s] && (swept || s / WAYS < 32'(dut.sweep_q)))
    `NF_ASSERT_NEVER(GoneLive_A, s / WAYS == 32'(dut.lk_set_q) && dut.gone_q[s%WAYS] && live[s])
    `NF_ASSERT_NEVER(StaleLooked_A, asked_q && s / WAYS == 32'(dut.lk_set_q) && used[s] && !live[s]
                                    && !dut.gone_q[s%WAYS])
    `NF_ASSERT(Again_A, !used[s] || dut.tag_again[s] == g_line[s].tag[TAG_BITS-2:0])
    `NF_ASSERT(Hit_A, !(asked_q && s / WAYS == 32'(dut.lk_set_q)) || dut.hit[s%WAYS] ==
                      (live[s] && regions[s] == lk_region && indexes[s] == lk_index))
    `NF_ASSERT_NEVER(Region_A, used[s] && 32'(regions[s]) >= REGIONS)
    for (genvar t = s - s % WAYS; t < s; t++) begin : g_other
      `NF_ASSERT_NEVER(TwoSlots_A, live[s] && live[t] && g_line[s].tag == g_line[t].tag)
    end
  end
  logic [SETS-1:0][WAYS-1:0] dirty;
  for (genvar n = 0; n < SETS; n++) begin : g_dirty
    assign dirty[n] = dut.dirty_q[n] ^ dut.lost_q[n];
  end
  `NF_ASSERT(MineDirty_A, !here_q || dirty[32'(slot_q)/WAYS][32'(slot_q)%WAYS] == dirty_q)
  `NF_ASSERT_NEVER(AskedRegion_A, asked_q && 32'(lk_region) >= REGIONS)
  `NF_ASSERT_NEVER(SweepRange_A, 32'(dut.sweep_q) >= SETS)
  `NF_ASSERT_NEVER(UsedUncleared_A, dut.clearing_q && (used != '0 || asked_q || !dut.sweeping_q))
  if (SETS > 1) begin : g_lk_set
    logic [SET_W-1:0] lk_set;
    nf_set_of #(.SET_W(SET_W)) u_lk (.line (lk_line), .set (lk_set));
    `NF_ASSERT(LookedSet_A, !asked_q || dut.lk_set_q == lk_set)
  end else begin : g_lk_one
    `NF_ASSERT(LookedSet_A, !asked_q || dut.lk_set_q == 1'b0)
  end

  `NF_COVER(DirtyEvicted_C, was_evicted_q && !here_q)
  `NF_COVER(BackAgain_C, was_evicted_q && here_q)
  `NF_COVER(Dropped_C, here_q && dirty_q && invalidate != '0 && leaves)
endmodule

`default_nettype wire
