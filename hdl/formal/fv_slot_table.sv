// SPDX-License-Identifier: Apache-2.0
// nf_slot_table against a reference of one line, which is chosen freely: a line is in one slot at
// most, where it is found; it leaves by an allocation that tells it as the victim, dirty if it was
// modified since it came, or by the invalidation of its region; and not while somebody needs it.
//
// Assumed is what the engine keeps to: one action on a slot at a time, allocations for a line that
// was looked at, where there is no hit and a slot to take, fills of slots that are filling, counts
// of writes and gathers that go down only after they went up, and commits (`invalidate`) while
// nothing is under way.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_slot_table
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
  parameter int SLOTS   = 4,
  parameter int REGIONS = 2,
  parameter int KEY_W   = 3
) (
  input wire logic                     clk,
  input wire logic                     look,
  input wire logic [3:0]               look_region,
  input wire logic [KEY_W-1:0]         look_index,
  input wire logic [SLOTS-1:0]         waited,
  input wire logic                     alloc,
  input wire logic                     alloc_ready,
  input wire logic                     filled,
  input wire logic [$clog2(SLOTS)-1:0] fill_slot,
  input wire logic                     touch,
  input wire logic                     at_hit,
  input wire logic [$clog2(SLOTS)-1:0] other_slot,
  input wire logic                     write_start,
  input wire logic                     write_end,
  input wire logic [$clog2(SLOTS)-1:0] write_end_slot,
  input wire logic                     damage,
  input wire logic [$clog2(SLOTS)-1:0] damage_slot,
  input wire logic [REGIONS-1:0]       invalidate,
  input wire logic [3:0]               my_region,  // the line that is followed
  input wire logic [KEY_W-1:0]         my_index
);
  localparam int SLOT_W = $clog2(SLOTS);

  logic              lk_hit, lk_open, lk_writing, lk_reading, lk_kept, lk_victim;
  logic              victim_ok, victim_fresh, victim_dirty, victim_kept;
  logic [SLOT_W-1:0] lk_slot, victim_slot, touch_slot;
  line_id_t          look_line, lk_line, victim_line;
  logic              asked_q;  // lk_line was looked at, and has got no slot since
  logic [3:0]        lk_region;
  logic [KEY_W-1:0]  lk_index;
  logic [SLOTS-1:0]  ready, writing, reading, kept;

  assign look_line  = make_line_id(look_region, INDEX_W'(look_index));
  assign lk_line    = make_line_id(lk_region, INDEX_W'(lk_index));
  assign touch_slot = at_hit ? lk_slot : other_slot;

  `NF_FORMAL_RESET

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) asked_q <= 1'b0;
    else        asked_q <= look || (asked_q && !alloc);
  end

  always_ff @(posedge clk) begin
    if (look) {lk_region, lk_index} <= {look_region, look_index};
  end

  nf_slot_table #(.SLOTS(SLOTS), .REGIONS(REGIONS), .KEY_W(KEY_W)) dut (
    .clk, .rst_n, .look, .look_line, .lk_line, .lk_hit, .lk_slot, .lk_open, .lk_writing,
    .lk_reading, .lk_kept, .lk_victim, .victim_ok, .victim_fresh, .victim_slot, .victim_dirty,
    .victim_kept, .victim_line, .waited, .ready, .writing, .reading, .kept, .alloc, .alloc_ready,
    .filled, .fill_slot, .keep(1'b0), .unkeep(1'b0), .touch, .at_hit, .other_slot, .write_start,
    .write_end, .write_end_slot, .read_start(1'b0), .read_end(1'b0), .read_end_slot(SLOT_W'(0)),
    .damage, .damage_slot, .invalidate
  );

  // ---- what the engine keeps to ----------------------------------------------------------------
  logic [SLOTS-1:0] used;
  logic [7:0]       counted [SLOTS];    // writes
  logic [7:0]       under_way [SLOTS];  // these, and what is counted in this clock
  assign used = dut.used_q;
  for (genvar s = 0; s < SLOTS; s++) begin : g_under_way
    assign counted[s]   = !dut.u_writes.busy_q[s] ? '0 : dut.u_writes.ups[s]
                          - (dut.u_writes.downed_q[s] ? dut.u_writes.downs[s] : '0);
    assign under_way[s] = counted[s]
                          + 8'(dut.write_start_q && 32'(dut.start_slot_q) == s)
                          - 8'(dut.write_end_q && 32'(dut.write_end_slot_q) == s);
  end

  `NF_ASSUME(RegionsThatThereAre_M, 32'(look_region) < REGIONS && 32'(my_region) < REGIONS)
  `NF_ASSUME_KEEPS(OneLine_M, 1'b1, {my_region, my_index})
  `NF_ASSUME(AllocatesForMisses_M, !alloc || (asked_q && victim_ok && !victim_fresh && !lk_hit))
  `NF_ASSUME(HitsWhatIsThere_M, !at_hit || (asked_q && lk_hit))
  `NF_ASSUME(FillsWhatIsFilling_M, !filled || (used[fill_slot] && !ready[fill_slot]))
  `NF_ASSUME(TouchesWhatIsThere_M, !(touch || write_start) ||
                                   (used[touch_slot] && ready[touch_slot]))
  `NF_ASSUME(OneAction_M, $onehot0({alloc, filled, touch, damage}))
  `NF_ASSUME(StartsWithTouch_M, !write_start || touch)
  `NF_ASSUME(DamagesWhatIsThere_M, !damage || used[damage_slot])
  `NF_ASSUME(EndsWhatBegan_M, !write_end || under_way[write_end_slot] != '0)
  `NF_ASSUME(FewWrites_M, !write_start || under_way[touch_slot] < 8'd3)
  `NF_ASSUME(WaitersOfWhatIsThere_M, (waited & ~used) == '0)
  `NF_ASSUME(FillingIsWaitedFor_M, (used & ~ready & ~waited) == '0)
  `NF_ASSUME(CommitsWhenIdle_M, invalidate == '0 || (waited == '0 && writing == '0 &&
                                !look && !asked_q && !alloc && !filled && !touch && !damage &&
                                !write_end))

  // ---- reference of the line that is followed --------------------------------------------------
  logic              here_q, dirty_q, was_evicted_q;
  logic [SLOT_W-1:0] slot_q;
  logic              looked_up, comes, leaves, mine_is_victim;

  assign looked_up      = asked_q && lk_region == my_region && lk_index == my_index;
  assign comes          = alloc && looked_up;
  assign mine_is_victim = victim_line.region == my_region &&
                          victim_line.index[KEY_W-1:0] == my_index && (&used);
  assign leaves         = here_q && (alloc && victim_slot == slot_q || invalidate[my_region[0]]);

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
        dirty_q <= 1'b0;
      end else if ((touch && touch_slot == slot_q) || (damage && damage_slot == slot_q)) begin
        dirty_q <= 1'b1;
      end
      if (leaves && alloc && dirty_q) was_evicted_q <= 1'b1;
    end
  end

  `NF_ASSERT_NEVER(NotFound_A, looked_up && here_q && !(lk_hit && lk_slot == slot_q))
  `NF_ASSERT_NEVER(FoundThoughGone_A, looked_up && !here_q && lk_hit)
  `NF_ASSERT_NEVER(DirtyLost_A, leaves && alloc && dirty_q && !(victim_dirty && mine_is_victim))
  `NF_ASSERT_NEVER(EvictedInUse_A, leaves && alloc && (waited[slot_q] || writing[slot_q]))
  `NF_ASSERT_NEVER(AnotherSlotTold_A, alloc && mine_is_victim && !(here_q && victim_slot == slot_q))

  // ---- what induction needs to know of the inside -----------------------------------------------
  for (genvar s = 0; s < SLOTS; s++) begin : g_slot
    `NF_ASSERT(Mine_A, (used[s] && dut.key_q[s] == {my_region, my_index}) ==
                       (here_q && 32'(slot_q) == s))
    `NF_ASSERT(Writes_A, dut.writes[s] == (counted[s] != '0))
    `NF_ASSERT_NEVER(DownedIdle_A, dut.u_writes.downed_q[s] && !dut.u_writes.busy_q[s])
    `NF_ASSERT(Starts_A, dut.write_starts_q[s] ==
                         (dut.write_start_q && 32'(dut.start_slot_q) == s))
    `NF_ASSERT_NEVER(Ended_A, under_way[s] > 8'd3)
    `NF_ASSERT_NEVER(EndsNothing_A, dut.write_end_q && 32'(dut.write_end_slot_q) == s &&
                                    counted[s] == '0)
    `NF_ASSERT(Hit_A, !asked_q || dut.hit[s] ==
                      (used[s] && dut.key_q[s] == {lk_region, lk_index}))
    `NF_ASSERT(Victim_A, dut.victim_q == '0 || dut.victim_q[s] == (32'(victim_slot) == s))
    `NF_ASSERT_NEVER(Region_A, used[s] && 32'(dut.key_q[s] >> KEY_W) >= REGIONS)
    for (genvar t = 0; t < s; t++) begin : g_other
      `NF_ASSERT_NEVER(TwoSlots_A, used[s] && used[t] && dut.key_q[s] == dut.key_q[t])
    end
  end
  `NF_ASSERT(MineDirty_A, !here_q || dut.dirty_q[slot_q] == dirty_q)
  `NF_ASSERT(Idle_A, dut.kept_q == '0 && reading == '0 && !dut.read_start_q && !dut.read_end_q)
  `NF_ASSERT_NEVER(AskedRegion_A, asked_q && 32'(lk_region) >= REGIONS)
  `NF_ASSERT_NEVER(FreeFirst_A, |(dut.victim_q & used) && !(&used))

  `NF_COVER(DirtyEvicted_C, was_evicted_q && !here_q)
  `NF_COVER(BackAgain_C, was_evicted_q && here_q)
  `NF_COVER(Dropped_C, here_q && dirty_q && invalidate != '0 && leaves)
endmodule

`default_nettype wire
