// SPDX-License-Identifier: Apache-2.0
// nf_round_robin: a client that asks gets its turn; who asks is served before anybody else twice.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_round_robin #(
  parameter int CLIENTS = 3
) (
  input wire logic               clk,
  input wire logic [CLIENTS-1:0] request,
  input wire logic               taken,
  input wire logic [2:0]         me
);
  logic [2:0]  turn, last_q;
  logic [31:0] passed_q;  // turns of others since I ask

  `NF_FORMAL_RESET

  nf_round_robin #(.CLIENTS(CLIENTS)) dut (.request, .last(last_q), .turn);

  `NF_ASSUME(OneOfThem_M, 32'(me) < CLIENTS)
  `NF_ASSUME_KEEPS(OneClient_M, 1'b1, me)
  `NF_ASSUME_KEEPS(Asks_M, request[me] && !(taken && turn == me), request[me])

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      last_q   <= '0;
      passed_q <= '0;
    end else begin
      if (taken && request != '0) last_q <= turn;
      if (!request[me] || (taken && turn == me)) passed_q <= '0;
      else if (taken) passed_q <= passed_q + 1;
    end
  end

  `NF_ASSERT_NEVER(TurnOfNobody_A, request != '0 && (32'(turn) >= CLIENTS || !request[turn]))
  `NF_ASSERT_NEVER(Keeps_A, request == '0 && turn != last_q)
  `NF_ASSERT_NEVER(Starves_A, passed_q >= CLIENTS)

  // What induction needs to know: how far the turn is from me.
  logic [31:0] away;
  assign away = (32'(me) + CLIENTS - 1 - 32'(last_q)) % CLIENTS;  // turns before mine, at most
  `NF_ASSERT(InRange_A, 32'(last_q) < CLIENTS)
  `NF_ASSERT_NEVER(Away_A, passed_q + away >= CLIENTS && passed_q != '0)

  `NF_COVER(Last_C, passed_q == CLIENTS - 1)
endmodule

`default_nettype wire
