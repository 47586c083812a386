// SPDX-License-Identifier: Apache-2.0
// State machines of link-level retry, receiving side (link spec §9): LRSM, RRSM, ESeq, NUM_RETRY,
// NUM_PHY_REINIT and TIMEOUT.
//
// In: `lost` (a flit with a bad CRC or Protocol ID, or a broken control flit), `got_frame`, or
// `got_other` (any other good flit: it breaks a run of RETRY.Frame), with it `good_retryable` or a
// RETRY strobe. `normal` and `discard` say what may become of the flit of this clock: all of it, or
// nothing; in between only RETRY flits count. Out to the sender: `want_req` and `want_ack` are
// levels, taken with `req_sent` and `ack_begun`; a RETRY.Req that comes after `ack_begun` is
// answered by another sequence. `tx_flit` counts sent flits for TIMEOUT. `quiet`: nothing may be
// sent.

`default_nettype none
`include "nf_assert.svh"
`include "nf_wave.svh"

module nf_link_lrsm
  import nf_pkg::*, nf_link_pkg::*;
#(
  parameter int RETRY_TIMEOUT = 4096
) (
  input  wire logic               clk,    // clock, rising edge
  input  wire logic               rst_n,  // asynchronous reset, active low

  input  wire logic               phy_up,           // the physical layer is up
  output logic                    retrain_request,  // level: the physical layer should reinitialise

  // A flit is lost: CRC, Protocol ID, or a broken control flit.
  input  wire logic               lost,
  input  wire logic               good_retryable,  // a good flit that counts in ESeq
  input  wire logic               got_init,  // INIT.Param, with the peer's wrap value
  input  wire logic [SEQ_W-1:0]   init_wrap,       // wrap value of the peer's retry buffer
  input  wire logic               got_frame,       // RETRY.Frame
  input  wire logic               got_req,         // RETRY.Req
  input  wire logic               got_ack,         // RETRY.Ack
  input  wire logic               got_other,       // any other good flit
  input  wire logic               req_held,  // the retry buffer holds the ESeq asked for
  input  wire logic [SEQ_W-1:0]   rx_eseq,   // fields of the RETRY.Req of this clock
  input  wire logic [RETRY_W-1:0] rx_num_retry,    // NUM_RETRY of the RETRY.Req
  input  wire logic [RETRY_W-1:0] rx_echo,   // fields of the RETRY.Ack of this clock
  input  wire logic               rx_empty,        // Empty flag of the RETRY.Ack

  output logic                    normal,      // RETRY_LOCAL_NORMAL: the flit counts
  output logic                    discard,     // the flit does not count
  output logic                    quiet,       // send nothing
  output logic                    local_idle,  // the LRSM is idle
  output logic                    aborted,     // RETRY_ABORT: dead until reset
  output lrsm_e                   lrsm,        // state of the LRSM

  output logic                    want_req,        // a RETRY.Req is to be sent
  output logic [SEQ_W-1:0]        eseq,            // ESeq to ask for
  output logic [RETRY_W-1:0]      num_retry,       // NUM_RETRY
  output logic [RETRY_W-1:0]      num_phy_reinit,  // NUM_PHY_REINIT
  input  wire logic               req_sent,        // the RETRY.Req is sent

  output logic                    want_ack,       // a RETRY.Ack is to be sent
  output logic [SEQ_W-1:0]        ack_eseq,       // ESeq that it answers
  output logic [RETRY_W-1:0]      ack_num_retry,  // NUM_RETRY that it echoes
  input  wire logic               ack_begun,      // the sequence that answers has begun

  input  wire logic               tx_flit,  // a flit is sent (counts for TIMEOUT)

  output logic                    ev_local,       // strobe: a local retry begins
  output logic                    ev_timeout,     // strobe: a RETRY.Req timed out
  output logic                    ev_phy_reinit,  // strobe: a reinitialisation is asked for
  output logic                    ev_abort,       // strobe: RETRY_ABORT
  output logic                    bad_req,        // strobe: RETRY.Req of an ESeq that is not held
  output logic                    bad_ack         // strobe: RETRY.Ack that answers nothing
);
  localparam int TIMER_W = $clog2(RETRY_TIMEOUT + 1);

  if (RETRY_TIMEOUT < 1) begin : g_bad_timeout
    initial $fatal(1, "nf_link_lrsm: RETRY_TIMEOUT must be at least 1");
  end

  lrsm_e              state_q, state_d;
  logic [2:0]         frames_q;
  logic [SEQ_W-1:0]   eseq_q, wrap_q, ack_eseq_q;
  logic [RETRY_W-1:0] num_retry_q, num_phy_q, ack_num_q;
  logic [TIMER_W-1:0] timer_q;
  logic               pending_q, retrain_q, phy_up_q;

  assign normal     = (state_q == LRSM_NORMAL);
  assign local_idle = (state_q == LRSM_LOCAL_IDLE);
  assign aborted    = (state_q == LRSM_ABORT);
  assign discard    = aborted || (state_q == LRSM_PHY_REINIT);
  assign quiet      = discard || !phy_up;
  assign lrsm       = state_q;

  // ---- RETRY flits count only after five RETRY.Frame -------------------------------------------
  logic sequence_ok, req_seen, ack_seen, ack_match, phy_drop, exhausted, given_up, timed_out;

  assign sequence_ok = (frames_q == 3'(RETRY_FRAMES));
  assign req_seen    = got_req && sequence_ok && req_held;
  assign ack_seen    = got_ack && sequence_ok;
  assign ack_match   = ack_seen && local_idle && (rx_echo == num_retry_q);
  assign bad_req     = got_req && sequence_ok && !req_held;
  assign bad_ack     = ack_seen && normal;

  // ---- LRSM ------------------------------------------------------------------------------------
  // The fall alone counts: from then on the state is PHY_REINIT, or ABORT, until it is up again.
  assign phy_drop  = phy_up_q && !phy_up;
  assign exhausted = (state_q == LRSM_LLRREQ) && (num_retry_q == RETRY_W'(MAX_RETRY));
  assign given_up  = exhausted && (num_phy_q == RETRY_W'(MAX_PHY_REINIT));
  assign timed_out = local_idle && (timer_q == TIMER_W'(RETRY_TIMEOUT));

  always_comb begin
    state_d = state_q;
    case (state_q)
      LRSM_NORMAL:     if (phy_drop)       state_d = LRSM_PHY_REINIT;
                       else if (lost)      state_d = LRSM_LLRREQ;
      LRSM_LLRREQ:     if (phy_drop)       state_d = LRSM_PHY_REINIT;
                       else if (given_up)  state_d = LRSM_ABORT;
                       else if (exhausted) state_d = LRSM_PHY_REINIT;
                       else if (req_sent)  state_d = LRSM_LOCAL_IDLE;
      LRSM_LOCAL_IDLE: if (phy_drop)       state_d = LRSM_PHY_REINIT;
                       else if (ack_match) state_d = LRSM_NORMAL;
                       else if (timed_out) state_d = LRSM_LLRREQ;
      LRSM_PHY_REINIT: if (phy_up && !phy_up_q) state_d = LRSM_LLRREQ;
      default:         state_d = LRSM_ABORT;
    endcase
  end

  assign ev_local      = normal && (state_d == LRSM_LLRREQ);
  assign ev_timeout    = local_idle && (state_d == LRSM_LLRREQ);
  assign ev_phy_reinit = (state_q != LRSM_PHY_REINIT) && (state_d == LRSM_PHY_REINIT);
  assign ev_abort      = !aborted && (state_d == LRSM_ABORT);

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      state_q     <= LRSM_NORMAL;
      frames_q    <= '0;
      eseq_q      <= '0;
      wrap_q      <= SEQ_W'(INITIAL_WRAP);
      num_retry_q <= '0;
      num_phy_q   <= '0;
      retrain_q   <= 1'b0;
      phy_up_q    <= 1'b0;
    end else begin
      state_q <= state_d;

      if (lost || got_other || discard)   frames_q <= '0;
      else if (got_frame && !sequence_ok) frames_q <= frames_q + 1'b1;

      if (good_retryable) eseq_q <= (eseq_q >= wrap_q) ? '0 : eseq_q + 1'b1;
      if (got_init)       wrap_q <= init_wrap;

      if (req_sent)
        num_retry_q <= num_retry_q + 1'b1;
      else if (good_retryable || (ack_match && rx_empty) || (state_q == LRSM_PHY_REINIT))
        num_retry_q <= '0;

      if (ev_phy_reinit && !phy_drop)
        num_phy_q <= num_phy_q + 1'b1;
      else if (good_retryable || (ack_match && rx_empty))
        num_phy_q <= '0;

      // The physical layer answers a request by going down and coming back.
      if (ev_phy_reinit && !phy_drop) retrain_q <= 1'b1;
      else if (!phy_up)               retrain_q <= 1'b0;
      phy_up_q <= phy_up;
    end
  end

  // TIMEOUT runs in LOCAL_IDLE only.
  always_ff @(posedge clk) begin
    if (!local_idle)  timer_q <= '0;
    else if (tx_flit) timer_q <= timer_q + 1'b1;
  end

  // ---- RRSM: a request of the peer waits for its RETRY.Ack -------------------------------------
  // What was asked for before the physical layer went down is asked for again afterwards.
  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n)                    pending_q <= 1'b0;
    else if (discard || phy_drop)  pending_q <= 1'b0;
    else if (req_seen)             pending_q <= 1'b1;
    else if (ack_begun)            pending_q <= 1'b0;
  end

  always_ff @(posedge clk) begin
    if (req_seen) begin
      ack_eseq_q <= rx_eseq;
      ack_num_q  <= rx_num_retry;
    end
  end

  assign want_req        = (state_q == LRSM_LLRREQ) && !exhausted;
  assign want_ack        = pending_q;
  assign eseq            = eseq_q;
  assign num_retry       = num_retry_q;
  assign num_phy_reinit  = num_phy_q;
  assign ack_eseq        = ack_eseq_q;
  assign ack_num_retry   = ack_num_q;
  assign retrain_request = retrain_q;

  // ---- checks ----------------------------------------------------------------------------------
  `NF_ASSERT_NEVER(EseqFrozen_A, good_retryable && !normal)
  `NF_ASSERT_NEVER(OneFlitAClock_A, lost && (good_retryable || got_frame || got_req || got_ack ||
                                             got_other))
  `NF_ASSERT_NEVER(RetryLimit_A, (num_retry_q > RETRY_W'(MAX_RETRY))
                                || (num_phy_q > RETRY_W'(MAX_PHY_REINIT)))
  `NF_ASSERT_NEVER(ReqOutsideLlrreq_A, req_sent && (state_q != LRSM_LLRREQ))
  `NF_ASSERT_KEEPS(AckOwed_A, want_ack && !ack_begun && !discard && !phy_drop, want_ack)
  `NF_ASSERT_KEEPS(EseqStable_A, !normal, eseq_q)
  `NF_ASSERT_KEEPS(AbortTerminal_A, aborted, aborted)

  `NF_WAVE_NAME(state_name, state_q, lrsm_name)
endmodule

`default_nettype wire
