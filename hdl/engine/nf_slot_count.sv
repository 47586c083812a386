// SPDX-License-Identifier: Apache-2.0
// Small counter for each slot, of which one goes up and one goes down in a clock; `busy` is set for
// those that are not 0. Up and down of one slot in one clock leave it unchanged.

`default_nettype none
`include "nf_assert.svh"

module nf_slot_count #(
  parameter int SLOTS = 64,
  parameter int WIDTH = 8
) (
  input  wire logic                     clk,        // clock, rising edge
  input  wire logic                     rst_n,      // asynchronous reset, active low
  input  wire logic                     up,         // one more of `up_slot`
  input  wire logic [$clog2(SLOTS)-1:0] up_slot,    // that slot
  input  wire logic                     down,       // one less of `down_slot`
  input  wire logic [$clog2(SLOTS)-1:0] down_slot,  // that slot
  output logic [SLOTS-1:0]              busy        // slots whose count is not 0
);
  logic [WIDTH-1:0] count_q [SLOTS];
  logic [SLOTS-1:0] busy_q;
  logic             same;

  assign same = up && down && (up_slot == down_slot);
  assign busy = busy_q;

  // Only what changes is looked at: a counter with next-state logic of its own for every slot took
  // a third of the time of a whole simulation.
  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      busy_q <= '0;
      for (int s = 0; s < SLOTS; s++) count_q[s] <= '0;
    end else if (!same) begin
      if (up) begin
        count_q[up_slot] <= count_q[up_slot] + 1'b1;
        busy_q[up_slot]  <= 1'b1;
      end
      if (down) begin
        count_q[down_slot] <= count_q[down_slot] - 1'b1;
        busy_q[down_slot]  <= (count_q[down_slot] != WIDTH'(1));
      end
    end
  end

  `NF_ASSERT_NEVER(Under_A, down && !same && count_q[down_slot] == '0)
  `NF_ASSERT_NEVER(Over_A, up && !same && count_q[up_slot] == '1)
endmodule

`default_nettype wire
