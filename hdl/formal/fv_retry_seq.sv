// SPDX-License-Identifier: Apache-2.0
// nf_link_retry_seq (link spec §9): RETRY.Ack and RETRY.Req leave after five RETRY.Frame, one for
// each request that was taken, with the requested numbers; Ack goes first.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_retry_seq
  import nf_link_pkg::*;
(
  input wire logic               clk,
  input wire logic               cancel,
  input wire logic               want_ack,
  input wire logic [SEQ_W-1:0]   ack_eseq,
  input wire logic [RETRY_W-1:0] ack_num_retry,
  input wire logic [SEQ_W-1:0]   wr_ptr,
  input wire logic [SEQ_W-1:0]   num_free_buf,
  input wire logic               want_req,
  input wire logic [SEQ_W-1:0]   req_eseq,
  input wire logic [RETRY_W-1:0] num_retry,
  input wire logic [RETRY_W-1:0] num_phy_reinit,
  input wire logic               ready
);
  logic              valid, ack_begun, ack_sent, req_sent, ack_active;
  logic [SLOT_W-1:0] slot;
  logic [SEQ_W-1:0]  rewind_to;

  `NF_FORMAL_RESET

  nf_link_retry_seq dut (.*);

  // ---- what the state machines keep to ---------------------------------------------------------
  `NF_ASSUME(NothingLeaves_M, !cancel || !ready)
  `NF_ASSUME_KEEPS(ReqStays_M, want_req && !req_sent && !cancel, want_req)
  `NF_ASSUME_KEEPS(AckStays_M, want_ack && !ack_begun && !cancel, want_ack)

  // ---- reference: flits that have left since a sequence began ----------------------------------
  logic [2:0]         left_q;
  logic               for_ack_q, waits_q, leaves, frame, ack, req;
  logic [SEQ_W-1:0]   eseq_q;
  logic [RETRY_W-1:0] echo_q;
  logic [3:0]         llctrl, subtype;

  assign leaves  = valid && ready;
  assign llctrl  = slot[35:32];
  assign subtype = slot[39:36];
  assign frame   = slot[0] && llctrl == LLCTRL_RETRY && subtype == SUB_RETRY_FRAME;
  assign ack     = slot[0] && llctrl == LLCTRL_RETRY && subtype == SUB_RETRY_ACK;
  assign req     = slot[0] && llctrl == LLCTRL_RETRY && subtype == SUB_RETRY_REQ;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      left_q    <= '0;
      for_ack_q <= 1'b0;
      waits_q   <= 1'b0;
      eseq_q    <= '0;
      echo_q    <= '0;
    end else if (cancel) begin
      left_q <= '0;
    end else if (leaves) begin
      left_q <= (left_q == 3'd5) ? '0 : left_q + 1'b1;
      if (left_q == '0) begin
        for_ack_q <= want_ack;
        waits_q   <= waits_q || (want_ack && want_req);
        eseq_q    <= ack_eseq;
        echo_q    <= ack_num_retry;
      end
    end
  end

  `NF_ASSERT(Offers_A, valid == (left_q != '0 || want_ack || want_req))
  `NF_ASSERT(Order_A, !valid || ((left_q != 3'd5) ? frame : for_ack_q ? ack : req))
  `NF_ASSERT(Taken_A, ack_begun == (leaves && left_q == '0 && want_ack))
  `NF_ASSERT(Ack_A, ack_sent == (leaves && ack) && req_sent == (leaves && req))
  `NF_ASSERT_NEVER(AckFields_A, ack_sent && (slot[95:88] != num_free_buf || slot[87:80] != eseq_q ||
                                slot[79:72] != wr_ptr || slot[71:67] != echo_q ||
                                slot[64] != (wr_ptr == eseq_q) || rewind_to != eseq_q))
  `NF_ASSERT_NEVER(ReqFields_A, req_sent && (slot[71:64] != req_eseq ||
                                slot[84:80] != num_retry + 1'b1 || slot[89:85] != num_phy_reinit))
  `NF_ASSERT(Active_A, !(want_ack || (for_ack_q && left_q != '0)) || ack_active)
  `NF_ASSERT_NEVER(ReqDropped_A, left_q != '0 && !for_ack_q && !want_req && !cancel)

  // What induction needs to know of the inside.
  `NF_ASSERT(Inside_A, dut.count_q == left_q && left_q <= 3'd5 && dut.active_q == (left_q != '0) &&
                       (left_q == '0 || dut.is_ack_q == for_ack_q) &&
                       (left_q == '0 || !for_ack_q || (dut.eseq_q == eseq_q &&
                                                       dut.echo_q == echo_q)))

  `NF_COVER(ReqBehindAck_C, req_sent && waits_q)
  `NF_COVER(AckSent_C, ack_sent && !want_req)
endmodule

`default_nettype wire
