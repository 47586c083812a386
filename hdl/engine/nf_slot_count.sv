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
  // A count that goes up and down in one clock needs two write ports, and so flip-flops. Two
  // numbers that only rise need one port each, and are in RAM. A slot is free again when both are
  // equal, modulo 2^WIDTH. Next-state logic for every slot would take a third of the time of a
  // simulation.
  logic [WIDTH-1:0] ups [SLOTS];    // ups since the slot was last free
  logic [WIDTH-1:0] downs [SLOTS];  // downs since then, where `downed_q` is set
  logic [SLOTS-1:0] busy_q, downed_q;
  logic [WIDTH-1:0] ups_next, downs_next;
  logic             same, last;

  assign same       = up && down && (up_slot == down_slot);
  assign ups_next   = busy_q[up_slot] ? ups[up_slot] + 1'b1 : WIDTH'(1);
  assign downs_next = downed_q[down_slot] ? downs[down_slot] + 1'b1 : WIDTH'(1);
  assign last       = (downs_next == ups[down_slot]);
  assign busy       = busy_q;

  always_ff @(posedge clk) begin
    if (up && !same)   ups[up_slot]     <= ups_next;
    if (down && !same) downs[down_slot] <= downs_next;
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      busy_q   <= '0;
      downed_q <= '0;
    end else if (!same) begin
      if (up) busy_q[up_slot] <= 1'b1;
      if (down) begin
        busy_q[down_slot]   <= !last;
        downed_q[down_slot] <= !last;
      end
    end
  end

`ifdef NF_CHECKED
  logic [WIDTH-1:0] count;  // of `up_slot`, if it is busy
  assign count = ups[up_slot] - (downed_q[up_slot] ? downs[up_slot] : '0);
`endif
  `NF_ASSERT_NEVER(Under_A, down && !same && !busy_q[down_slot])
  `NF_ASSERT_NEVER(Over_A, up && !same && busy_q[up_slot] && count == '1)
endmodule

`default_nettype wire
