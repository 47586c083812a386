// SPDX-License-Identifier: Apache-2.0
// Two ends of a link that lose flits: each end takes the retryable flits of the other in order,
// none twice and none left out, whichever flits come damaged, RETRY flits among them, and however
// early TIMEOUT ends. What a sender gives away from its buffer has been taken.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_retry_link
  import nf_link_pkg::*;
#(
  parameter int DEPTH         = 4,
  parameter int RETRY_TIMEOUT = 8
) (
  input wire logic       clk,
  input wire logic [1:0] send,    // each end has something new
  input wire logic [1:0] damage   // the flit that comes to this end is damaged
);
  localparam int NUMBER_W = PAYLOAD_W - 2;

  logic [1:0]           valid, control, consumed, stored, retried, wrong;
  logic [SLOT_W-1:0]    slot [2];
  logic [PAYLOAD_W-1:0] payload [2];
  logic [NUMBER_W-1:0]  number [2];
  logic [1:0]           freed [2];

  `NF_FORMAL_RESET

  for (genvar e = 0; e < 2; e++) begin : g_end
    fv_retry_peer #(.DEPTH(DEPTH), .RETRY_TIMEOUT(RETRY_TIMEOUT)) u_end (
      .clk, .rst_n, .phy_up(1'b1), .send(send[e]), .rx_valid(valid[1-e]), .rx_bad(damage[e]),
      .rx_control(control[1-e]), .rx_slot(slot[1-e]), .rx_payload(payload[1-e]),
      .tx_valid(valid[e]), .tx_control(control[e]), .tx_slot(slot[e]), .tx_payload(payload[e]),
      .consumed(consumed[e]), .number(number[e]), .stored(stored[e]), .freed(freed[e]),
      .retried(retried[e]), .wrong(wrong[e])
    );
  end

  // ---- reference: how many flits each end has taken, sent and given away ------------------------
  logic [7:0] taken_q [2];
  logic [7:0] sent_q [2];
  logic [7:0] given_q [2];
  logic [1:0] retried_q [2];

  for (genvar e = 0; e < 2; e++) begin : g_reference
    always_ff @(posedge clk or negedge rst_n) begin
      if (!rst_n) begin
        taken_q[e]   <= '0;
        sent_q[e]    <= '0;
        given_q[e]   <= '0;
        retried_q[e] <= '0;
      end else begin
        taken_q[e]   <= taken_q[e] + 8'(consumed[e]);
        sent_q[e]    <= sent_q[e] + 8'(stored[e]);
        given_q[e]   <= given_q[e] + 8'(freed[e]);
        retried_q[e] <= retried_q[e] + 2'(retried[e] && retried_q[e] != 2'd3);
      end
    end
  end

  `NF_ASSERT_NEVER(Order0_A, consumed[0] && number[0] != NUMBER_W'(taken_q[0]))
  `NF_ASSERT_NEVER(Order1_A, consumed[1] && number[1] != NUMBER_W'(taken_q[1]))
  `NF_ASSERT(TakenAfterSent_A, taken_q[0] <= sent_q[1] && taken_q[1] <= sent_q[0])
  `NF_ASSERT(GivenAfterTaken_A, given_q[0] <= taken_q[1] && given_q[1] <= taken_q[0])
  `NF_ASSERT(NothingWrong_A, wrong == '0)

  `NF_COVER(RetriedAndOn_C, retried_q[1] == 2'd1 && taken_q[1] == 8'd3)
  `NF_COVER(BothRetry_C, retried_q[0] != '0 && retried_q[1] != '0)
  `NF_COVER(Twice_C, retried_q[1] == 2'd2 && taken_q[1] == 8'd2)
  if (RETRY_TIMEOUT < 8) begin : g_early
    // A request that timed out, and the next one, which was answered.
    logic timed_out_q;
    always_ff @(posedge clk or negedge rst_n) begin
      if (!rst_n) timed_out_q <= 1'b0;
      else        timed_out_q <= timed_out_q || g_end[1].u_end.ev_timeout;
    end
    `NF_COVER(AskedAgain_C, timed_out_q && retried_q[1] != '0)
  end
endmodule

`default_nettype wire
