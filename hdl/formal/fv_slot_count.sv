// SPDX-License-Identifier: Apache-2.0
// nf_slot_count against one count for one slot, which is chosen freely: up and down of one slot in
// one clock, or of two slots, are both right, and `busy` tells every count that is not 0.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_slot_count #(
  parameter int SLOTS = 4,
  parameter int WIDTH = 3
) (
  input wire logic                     clk,
  input wire logic                     up,
  input wire logic [$clog2(SLOTS)-1:0] up_slot,
  input wire logic                     down,
  input wire logic [$clog2(SLOTS)-1:0] down_slot,
  input wire logic [$clog2(SLOTS)-1:0] slot
);
  logic [SLOTS-1:0] busy;

  `NF_FORMAL_RESET

  nf_slot_count #(.SLOTS(SLOTS), .WIDTH(WIDTH)) dut (
    .clk, .rst_n, .up, .up_slot, .down, .down_slot, .busy
  );

  // ---- what the users of a count keep to -------------------------------------------------------
  logic same;
  assign same = up && down && up_slot == down_slot;

  `NF_ASSUME_KEEPS(OneSlot_M, 1'b1, slot)
  `NF_ASSUME(NotBelowZero_M, !down || same || busy[down_slot])
  `NF_ASSUME(NotAbove_M, !up || same || !busy[up_slot] || dut.count != '1)

  // ---- reference -------------------------------------------------------------------------------
  logic [WIDTH-1:0] count_q;
  logic             was_full_q;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      count_q    <= '0;
      was_full_q <= 1'b0;
    end else begin
      count_q    <= count_q + WIDTH'(up && up_slot == slot) - WIDTH'(down && down_slot == slot);
      was_full_q <= was_full_q || count_q == '1;
    end
  end

  logic [WIDTH-1:0] downs;
  assign downs = dut.downed_q[slot] ? dut.downs[slot] : '0;

  `NF_ASSERT(Count_A, !busy[slot] || dut.ups[slot] - downs == count_q)
  `NF_ASSERT_NEVER(DownedIdle_A, dut.downed_q[slot] && !busy[slot])
  `NF_ASSERT(Busy_A, busy[slot] == (count_q != '0))

  `NF_COVER(BothOfOne_C, same && up_slot == slot && count_q != '0)
  `NF_COVER(FullThenEmpty_C, was_full_q && count_q == '0)
endmodule

`default_nettype wire
