// SPDX-License-Identifier: Apache-2.0
// nf_link_lrsm against the tables of link spec §9: every transition of LRSM and RRSM, ESeq,
// NUM_RETRY and NUM_PHY_REINIT, for any flits and any behaviour of the physical layer. With SHORT
// the design has smaller limits (by edits of its package), so that the covers reach its end.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_link_lrsm
  import nf_pkg::*, nf_link_pkg::*;
#(
  parameter int RETRY_TIMEOUT = 3,
  parameter int SHORT         = 0
) (
  input wire logic               clk,
  input wire logic               phy_up,
  input wire logic               lost,
  input wire logic               good_retryable,
  input wire logic               got_init,
  input wire logic [SEQ_W-1:0]   init_wrap,
  input wire logic               got_frame,
  input wire logic               got_req,
  input wire logic               got_ack,
  input wire logic               got_other,
  input wire logic               req_held,
  input wire logic [SEQ_W-1:0]   rx_eseq,
  input wire logic [RETRY_W-1:0] rx_num_retry,
  input wire logic [RETRY_W-1:0] rx_echo,
  input wire logic               rx_empty,
  input wire logic               req_sent,
  input wire logic               ack_begun,
  input wire logic               tx_flit
);
  logic               retrain_request, normal, discard, quiet, local_idle, aborted;
  logic               want_req, want_ack, ev_local, ev_timeout, ev_phy_reinit, ev_abort;
  logic               bad_req, bad_ack;
  lrsm_e              lrsm;
  logic [SEQ_W-1:0]   eseq, ack_eseq;
  logic [RETRY_W-1:0] num_retry, num_phy_reinit, ack_num_retry;

  `NF_FORMAL_RESET

  nf_link_lrsm #(.RETRY_TIMEOUT(RETRY_TIMEOUT)) dut (.*);

  // ---- what the parts around it keep to --------------------------------------------------------
  `NF_ASSUME(OneFlit_M, $onehot0({lost, got_frame, got_other}))
  `NF_ASSUME(Kinds_M, got_other || !(got_req || got_ack || good_retryable))
  `NF_ASSUME(OneKind_M, $onehot0({got_req, got_ack, good_retryable}))
  `NF_ASSUME(InitCounts_M, !got_init || good_retryable)
  `NF_ASSUME(OnlyInNormal_M, !good_retryable || normal)
  `NF_ASSUME(Discards_M, !(discard || !phy_up) || !(got_frame || got_other || lost))
  `NF_ASSUME(SentAsWanted_M, (!req_sent || want_req) && (!ack_begun || want_ack))
  `NF_ASSUME(OneSequence_M, !(req_sent && ack_begun))
  `NF_ASSUME(Quiet_M, !quiet || !(req_sent || ack_begun || tx_flit))

  // ---- LRSM and RRSM by the book ---------------------------------------------------------------
  typedef enum logic [2:0] {R_NORMAL, R_LLRREQ, R_LOCAL_IDLE, R_PHY_REINIT, R_ABORT} state_e;
  state_e             state_q, state_d;
  logic [2:0]         frames_q;
  logic [31:0]        eseq_q, wrap_q, retry_q, reinit_q, sent_q;
  logic               was_up_q, up_q, llrack_q, retried_q;
  logic [SEQ_W-1:0]   asked_q;
  logic [RETRY_W-1:0] echo_q;
  logic               reset, match, request;

  assign reset   = was_up_q && !phy_up;
  assign match   = state_q == R_LOCAL_IDLE && got_ack && frames_q == 3'd5 &&
                   32'(rx_echo) == retry_q;
  assign request = got_req && frames_q == 3'd5 && req_held;

  always_comb begin
    state_d = state_q;
    case (state_q)
      R_NORMAL:
        if (reset)     state_d = R_PHY_REINIT;
        else if (lost) state_d = R_LLRREQ;
      R_LLRREQ:
        if (reset) state_d = R_PHY_REINIT;
        else if (retry_q == MAX_RETRY)
          if (reinit_q == MAX_PHY_REINIT) state_d = R_ABORT;
          else                            state_d = R_PHY_REINIT;
        else if (req_sent) state_d = R_LOCAL_IDLE;
      R_LOCAL_IDLE:
        if (reset)                        state_d = R_PHY_REINIT;
        else if (match)                   state_d = R_NORMAL;
        else if (sent_q == RETRY_TIMEOUT) state_d = R_LLRREQ;
      R_PHY_REINIT:
        if (phy_up && !up_q) state_d = R_LLRREQ;
      default: state_d = R_ABORT;
    endcase
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      state_q   <= R_NORMAL;
      frames_q  <= '0;
      eseq_q    <= '0;
      wrap_q    <= INITIAL_WRAP;
      retry_q   <= '0;
      reinit_q  <= '0;
      sent_q    <= '0;
      was_up_q  <= 1'b0;
      up_q      <= 1'b1;
      llrack_q  <= 1'b0;
      retried_q <= 1'b0;
      asked_q   <= '0;
      echo_q    <= '0;
    end else begin
      state_q  <= state_d;
      was_up_q <= was_up_q || phy_up;
      up_q     <= phy_up;
      frames_q <= (lost || got_other || discard) ? '0 :
                  (got_frame && frames_q != 3'd5) ? frames_q + 1'b1 : frames_q;
      if (good_retryable) eseq_q <= (eseq_q >= wrap_q) ? '0 : eseq_q + 1;
      if (got_init)       wrap_q <= 32'(init_wrap);
      sent_q <= (state_q == R_LOCAL_IDLE) ? sent_q + 32'(tx_flit) : '0;

      if (good_retryable || (match && rx_empty && !reset)) begin
        retry_q  <= '0;
        reinit_q <= '0;
      end
      if (req_sent) retry_q <= retry_q + 1;
      if (state_q == R_PHY_REINIT) retry_q <= '0;
      if (state_q == R_LLRREQ && state_d == R_PHY_REINIT && !reset) reinit_q <= reinit_q + 1;

      llrack_q <= !discard && !reset && (request || (llrack_q && !ack_begun));
      if (request) begin
        asked_q <= rx_eseq;
        echo_q  <= rx_num_retry;
      end
      if (match && state_d == R_NORMAL && reinit_q != 0) retried_q <= 1'b1;
    end
  end

  // The reset of `match` by a falling physical layer shows in the counts alone, which it clears.
  logic same_counts;
  assign same_counts = state_q == R_PHY_REINIT || 32'(num_retry) == retry_q;

  `NF_ASSERT(State_A, (lrsm == LRSM_NORMAL) == (state_q == R_NORMAL) &&
                      (lrsm == LRSM_LLRREQ) == (state_q == R_LLRREQ) &&
                      (lrsm == LRSM_LOCAL_IDLE) == (state_q == R_LOCAL_IDLE) &&
                      (lrsm == LRSM_PHY_REINIT) == (state_q == R_PHY_REINIT) &&
                      (lrsm == LRSM_ABORT) == (state_q == R_ABORT))
  `NF_ASSERT(Eseq_A, 32'(eseq) == eseq_q)
  `NF_ASSERT(NumRetry_A, same_counts && 32'(num_phy_reinit) == reinit_q)
  `NF_ASSERT(Rrsm_A, want_ack == llrack_q)
  `NF_ASSERT_NEVER(AnswersAnother_A, llrack_q && (ack_eseq != asked_q || ack_num_retry != echo_q))
  `NF_ASSERT(AsksInLlrreq_A, want_req == (state_q == R_LLRREQ && retry_q != MAX_RETRY))
  `NF_ASSERT(Discard_A, discard == (state_q == R_PHY_REINIT || state_q == R_ABORT))
  `NF_ASSERT(BadReq_A, bad_req == (got_req && frames_q == 3'd5 && !req_held))
  `NF_ASSERT(BadAck_A, bad_ack == (got_ack && frames_q == 3'd5 && state_q == R_NORMAL))
  `NF_ASSERT_NEVER(TimesOut_A, ev_timeout && sent_q != RETRY_TIMEOUT)
  `NF_ASSERT_KEEPS(RetrainAsked_A, retrain_request && phy_up, retrain_request)

  // What induction needs to know of the inside.
  `NF_ASSERT(Inside_A, dut.frames_q == frames_q && 32'(dut.wrap_q) == wrap_q &&
                       dut.phy_up_q == (was_up_q && up_q) &&
                       (!was_up_q || up_q || discard) &&
                       (state_q != R_LOCAL_IDLE || 32'(dut.timer_q) == sent_q))
  `NF_ASSERT(Limits_A, retry_q <= MAX_RETRY && reinit_q <= MAX_PHY_REINIT &&
                       sent_q <= RETRY_TIMEOUT + 1 && frames_q <= 3'd5 &&
                       (state_q != R_LOCAL_IDLE || sent_q <= RETRY_TIMEOUT))

  `NF_COVER(RequestAnswered_C, llrack_q && ack_begun && state_q == R_NORMAL)
  if (SHORT != 0) begin : g_short
    `NF_COVER(Aborted_C, state_q == R_ABORT)
    `NF_COVER(SecondTime_C, retried_q)
  end
endmodule

`default_nettype wire
