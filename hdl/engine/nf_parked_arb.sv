// SPDX-License-Identifier: Apache-2.0
// Round-robin arbiter over slots whose oldest parked operation can issue; the grant is registered.
//
// Slots are numbered by their pins (nf_slot_pins). `goes` is set while the slot `head_slot` can
// still issue. `take` issues it and grants the next slot: another one if there is one, else the
// same. A grant that can no longer issue is withdrawn. If no slot can issue, one is granted that
// lacks nothing but room (`ready_to`): it issues in the first clock with room, ahead of operations
// that arrive in it. `next_slot` is `head_slot` of the next clock.

`default_nettype none
`include "nf_assert.svh"

module nf_parked_arb #(
  parameter int SLOTS = 64
) (
  input  wire logic                     clk,       // clock, rising edge
  input  wire logic                     rst_n,     // asynchronous reset, active low
  input  wire logic [SLOTS-1:0]         ready_to,  // slots that lack nothing but room
  input  wire logic [SLOTS-1:0]         can_go,  // some of them
  input  wire logic                     take,      // the chosen slot goes
  output logic                          goes,      // the chosen slot can go
  output logic [$clog2(SLOTS)-1:0]      head_slot,  // the chosen slot
  output logic [$clog2(SLOTS)-1:0]      next_slot   // the chosen slot of the next clock
);
  localparam int SLOT_W = $clog2(SLOTS);

  logic [SLOTS-1:0]  behind, choice_from, choice, head_q;
  logic [SLOT_W-1:0] head_slot_q, choice_slot;

  // Without one above the head the lowest is next: the head itself is not, if there is another.
  assign behind      = can_go & ({SLOTS{1'b1}} << head_slot_q << 1);
  assign choice_from = |behind ? behind : |can_go ? can_go
                       : |(head_q & ready_to) ? head_q : ready_to;
  assign choice      = choice_from & (~choice_from + 1'b1);
  assign goes        = |(head_q & can_go);
  assign head_slot   = head_slot_q;
  assign next_slot   = ((take || !goes) && |choice) ? choice_slot : head_slot_q;

  for (genvar b = 0; b < SLOT_W; b++) begin : g_encode
    // Slots whose number has bit b: 2^b without, 2^b with, and so on.
    localparam logic [SLOTS-1:0] WITH = {(SLOTS >> (b + 1)){{(1 << b){1'b1}}, {(1 << b){1'b0}}}};
    assign choice_slot[b] = |(choice & WITH);
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      head_q      <= '0;
      head_slot_q <= '0;
    end else begin
      if (take || !goes) head_q <= choice;
      head_slot_q <= next_slot;
    end
  end

  `NF_ASSERT_NEVER(TakesNothing_A, take && !goes)
  `NF_ASSERT(OneHead_A, $onehot0(head_q))
  `NF_ASSERT_NEVER(GoesUnready_A, |(can_go & ~ready_to))
  `NF_ASSERT_NEXT(HeadWaits_A, |ready_to && !take, |head_q)
`ifdef NF_CHECKED
  // The last slot stands for all: while it can go, each of the others goes once before it.
  logic [SLOT_W-1:0] passed_q;
  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) passed_q <= '0;
    else if (!can_go[SLOTS-1] || (take && head_q[SLOTS-1])) passed_q <= '0;
    else if (take) passed_q <= passed_q + 1'b1;
  end
  `NF_ASSERT_NEVER(InTurn_A, take && can_go[SLOTS-1] && !head_q[SLOTS-1] && &passed_q)
`endif
endmodule

`default_nettype wire
