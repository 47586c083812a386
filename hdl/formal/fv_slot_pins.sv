// SPDX-License-Identifier: Apache-2.0
// nf_slot_pins against a reference of one slot, which is chosen freely: it counts as pinned
// exactly while operations wait for it or FP32 writes or gathers of it are under way; its pin is
// told, and names it; it has one pin at most.
//
// Assumed is what nf_lookup keeps to: a pin is taken for a slot that has none, operations wait for,
// and writes and gathers start on, what has a pin or gets one, and what ends has begun.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_slot_pins #(
  parameter int SLOTS = 8,
  parameter int WAYS  = 4,
  parameter int PINS  = 4
) (
  input wire logic                          clk,
  input wire logic [$clog2(SLOTS/WAYS)-1:0] lk_set,
  input wire logic [WAYS-1:0]               hit,
  input wire logic [$clog2(SLOTS/WAYS)-1:0] ask_set,
  input wire logic                          take,
  input wire logic [WAYS-1:0]               take_way,
  input wire logic [$clog2(SLOTS)-1:0]      take_slot,
  input wire logic                          take_ready,
  input wire logic [$clog2(PINS)-1:0]       other_pin,
  input wire logic                          filled,
  input wire logic [$clog2(PINS)-1:0]       fill_pin,
  input wire logic                          write_start,
  input wire logic                          read_start,
  input wire logic [$clog2(PINS)-1:0]       start_pin,
  input wire logic                          write_end,
  input wire logic [$clog2(PINS)-1:0]       write_end_pin,
  input wire logic                          read_end,
  input wire logic [$clog2(PINS)-1:0]       read_end_pin,
  input wire logic [PINS-1:0]               waited,
  input wire logic [$clog2(SLOTS)-1:0]      my_slot  // the slot that is followed
);
  localparam int SLOT_W = $clog2(SLOTS);
  localparam int WAY_W  = $clog2(WAYS);
  localparam int SET_B  = $clog2(SLOTS / WAYS);
  localparam int PIN_W  = $clog2(PINS);

  logic              lk_pinned, lk_waited, lk_writing, lk_reading, free_ok, free_next;
  logic [PIN_W-1:0]  lk_pin, free_pin;
  logic [WAYS-1:0]   row_pinned, ask_pinned;
  logic [SLOT_W-1:0] other_slot, fill_slot;
  logic [PINS-1:0]   ready, writing, reading, taken, held, alive_q;
  logic [SET_B-1:0]  my_set;
  logic [WAY_W-1:0]  my_way;

  `NF_FORMAL_RESET

  nf_slot_pins #(.SLOTS(SLOTS), .WAYS(WAYS), .PINS(PINS)) dut (.*);

  // ---- what nf_lookup keeps to -----------------------------------------------------------------
  logic [7:0] writes [PINS];     // counted
  logic [7:0] gathers [PINS];
  logic [7:0] writes_now [PINS];  // these, and what is counted in this clock
  logic [7:0] gathers_now [PINS];
  for (genvar p = 0; p < PINS; p++) begin : g_count
    assign writes[p]      = !dut.u_writes.busy_q[p] ? '0 : dut.u_writes.ups[p]
                            - (dut.u_writes.downed_q[p] ? dut.u_writes.downs[p] : '0);
    assign gathers[p]     = !dut.u_gathers.busy_q[p] ? '0 : dut.u_gathers.ups[p]
                            - (dut.u_gathers.downed_q[p] ? dut.u_gathers.downs[p] : '0);
    assign writes_now[p]  = writes[p] + 8'(dut.write_start_q && 32'(dut.start_pin_q) == p)
                            - 8'(dut.write_end_q && 32'(dut.write_end_pin_q) == p);
    assign gathers_now[p] = gathers[p] + 8'(dut.read_start_q && 32'(dut.start_pin_q) == p)
                            - 8'(dut.read_end_q && 32'(dut.read_end_pin_q) == p);
    assign taken[p]       = take && 32'(free_pin) == p;
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) alive_q <= '0;
    else        alive_q <= held | taken;
  end

  assign held             = waited | writing | reading;
  assign {my_set, my_way} = my_slot;

  `NF_ASSUME_KEEPS(OneSlot_M, 1'b1, my_slot)
  `NF_ASSUME(OneHit_M, $onehot0(hit))
  `NF_ASSUME(TakesOne_M, !take || ($onehot(take_way) && free_ok && (take_way & row_pinned) == '0))
  `NF_ASSUME(TakesSlot_M, !take || (take_slot[SLOT_W-1:WAY_W] == lk_set &&
                                    take_way == WAYS'(1) << take_slot[WAY_W-1:0]))
  `NF_ASSUME(WaitsWithPin_M, (waited & ~alive_q) == '0)
  `NF_ASSUME(StartsWithPin_M, !(write_start || read_start) || held[start_pin] ||
                              taken[start_pin])
  `NF_ASSUME(StartsApart_M, !(write_start && read_start) && !(write_start && reading[start_pin]) &&
                            !(read_start && writing[start_pin]))
  `NF_ASSUME(EndsWhatBegan_M, !(write_end && writes_now[write_end_pin] == '0) &&
                              !(read_end && gathers_now[read_end_pin] == '0))
  `NF_ASSUME(Few_M, !(write_start && writes_now[start_pin] > 8'd2) &&
                    !(read_start && gathers_now[start_pin] > 8'd2))
  `NF_ASSUME(FillsAwaited_M, !filled || (waited[fill_pin] && !ready[fill_pin]))

  // ---- reference of the slot that is followed --------------------------------------------------
  logic             mine_q;      // it got a pin, which has been held since
  logic [PIN_W-1:0] my_pin_q;
  logic             mine;        // it is held now

  assign mine = mine_q && held[my_pin_q];

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) mine_q <= 1'b0;
    else        mine_q <= mine || (take && take_slot == my_slot);
  end

  always_ff @(posedge clk) begin
    if (take && take_slot == my_slot) my_pin_q <= free_pin;
  end

  `NF_ASSERT(RowPinned_A, lk_set != my_set || row_pinned[my_way] == mine)
  `NF_ASSERT(AskPinned_A, ask_set != my_set || ask_pinned[my_way] == mine)
  `NF_ASSERT(Pinned_A, !(lk_set == my_set && hit[my_way]) || (lk_pinned == mine &&
                       (!mine || lk_pin == my_pin_q)))
  `NF_ASSERT(Waited_A, !(lk_set == my_set && hit[my_way] && mine) ||
                       (lk_waited == waited[my_pin_q] && lk_writing == writing[my_pin_q] &&
                        lk_reading == reading[my_pin_q]))
  `NF_ASSERT(Slot_A, !(mine && other_pin == my_pin_q) || other_slot == my_slot)
  `NF_ASSERT(FillSlot_A, !(mine && fill_pin == my_pin_q) || fill_slot == my_slot)
  `NF_ASSERT_NEVER(FreeIsHeld_A, free_ok && held[free_pin])
  `NF_ASSERT_NEVER(FreeIsMine_A, free_ok && mine && free_pin == my_pin_q)

  // ---- what induction needs to know of the inside -----------------------------------------------
  for (genvar p = 0; p < PINS; p++) begin : g_pin
    `NF_ASSERT_NEVER(HeldDead_A, held[p] && !alive_q[p])
    `NF_ASSERT(Mine_A, !(alive_q[p] && held[p]) || (dut.slots[p] == my_slot) ==
                       (mine_q && 32'(my_pin_q) == p))
    `NF_ASSERT(Place_A, !alive_q[p] || (dut.set_q[p] == dut.slots[p][SLOT_W-1:WAY_W] &&
                        dut.way_q[p] == WAYS'(1) << dut.slots[p][WAY_W-1:0]))
    `NF_ASSERT(Free_A, dut.free_q[p] == (32'(free_pin) == p))
    `NF_ASSERT(WriteCount_A, dut.writes[p] == (writes[p] != '0))
    `NF_ASSERT(GatherCount_A, dut.gathers[p] == (gathers[p] != '0))
    `NF_ASSERT_NEVER(DownedIdle_A, (dut.u_writes.downed_q[p] && !dut.u_writes.busy_q[p]) ||
                                   (dut.u_gathers.downed_q[p] && !dut.u_gathers.busy_q[p]))
    `NF_ASSERT(Starts_A, dut.write_starts_q[p] == (dut.write_start_q && 32'(dut.start_pin_q) == p)
                         && dut.read_starts_q[p] == (dut.read_start_q
                                                     && 32'(dut.start_pin_q) == p))
    `NF_ASSERT_NEVER(Many_A, writes_now[p] > 8'd3 || gathers_now[p] > 8'd3)
    `NF_ASSERT_NEVER(EndsNothing_A, (dut.write_end_q && 32'(dut.write_end_pin_q) == p &&
                                     writes[p] == '0) ||
                                    (dut.read_end_q && 32'(dut.read_end_pin_q) == p &&
                                     gathers[p] == '0))
    for (genvar q = 0; q < p; q++) begin : g_other
      `NF_ASSERT_NEVER(TwoPins_A, held[p] && held[q] && dut.slots[p] == dut.slots[q])
    end
  end

  `NF_COVER(Pinned_C, mine && lk_set == my_set && hit[my_way] && lk_writing)
  `NF_COVER(AllHeld_C, !free_ok && !free_next)
  `NF_COVER(AnotherPin_C, mine && mine_q && my_pin_q != '0)
endmodule

`default_nettype wire
