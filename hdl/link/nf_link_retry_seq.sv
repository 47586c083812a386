// SPDX-License-Identifier: Apache-2.0
// RETRY sequences of the sender (link spec §9): five RETRY.Frame, then RETRY.Ack or RETRY.Req.
//
// RETRY.Ack goes before RETRY.Req; a sequence that has begun is finished. Valid/ready towards the
// transmit end; the flit in `slot` may change until it is taken (NumFreeBuf moves). `ack_begun`
// takes the request that is answered, `ack_sent` / `req_sent` mark the last flit. RdPtr goes to
// `rewind_to` with `ack_sent`: then no all-data run is under way. `cancel` forgets a sequence that
// has begun (the physical layer went down).

`default_nettype none
`include "nf_assert.svh"
`include "nf_wave.svh"

module nf_link_retry_seq
  import nf_link_pkg::*;
(
  input  wire logic               clk,    // clock, rising edge
  input  wire logic               rst_n,  // asynchronous reset, active low

  input  wire logic               cancel,  // forget a sequence that has begun

  input  wire logic               want_ack,       // a RETRY.Ack is to be sent
  input  wire logic [SEQ_W-1:0]   ack_eseq,       // ESeq that it answers
  input  wire logic [RETRY_W-1:0] ack_num_retry,  // NUM_RETRY that it echoes
  input  wire logic [SEQ_W-1:0]   wr_ptr,         // WrPtr of the retry buffer
  input  wire logic [SEQ_W-1:0]   num_free_buf,   // NumFreeBuf of the retry buffer

  input  wire logic               want_req,        // a RETRY.Req is to be sent
  input  wire logic [SEQ_W-1:0]   req_eseq,        // ESeq that it asks for
  input  wire logic [RETRY_W-1:0] num_retry,       // NUM_RETRY
  input  wire logic [RETRY_W-1:0] num_phy_reinit,  // NUM_PHY_REINIT

  output logic                    valid,  // control flit valid
  input  wire logic               ready,  // it is taken
  output logic [SLOT_W-1:0]       slot,   // slot 0 of the flit

  output logic                    ack_begun,  // the sequence that answers begins
  output logic                    ack_sent,   // the RETRY.Ack leaves
  output logic [SEQ_W-1:0]        rewind_to,  // sequence number to replay from
  output logic                    req_sent,   // the RETRY.Req leaves
  output logic                    ack_active  // RETRY.Ack owed, or its sequence under way
);
  logic               active_q, is_ack_q, last, fire;
  logic [2:0]         count_q;   // flits of the sequence that have left
  logic [SEQ_W-1:0]   eseq_q;
  logic [RETRY_W-1:0] echo_q;
  logic [RETRY_W-1:0] next_num;
  logic [63:0]        ack_payload, req_payload, payload;
  retry_subtype_e     subtype;

  assign valid     = active_q || want_ack || want_req;
  assign fire      = valid && ready;
  assign last      = (count_q == 3'(RETRY_FRAMES));
  assign ack_begun = fire && !active_q && want_ack;
  assign ack_sent  = fire && last && is_ack_q;
  assign req_sent  = fire && last && !is_ack_q;
  assign rewind_to  = eseq_q;
  assign ack_active = want_ack || is_ack_q;  // until the clock after RETRY.Ack

  // NUM_RETRY as it is once the request has left: the echo must equal it.
  assign next_num    = num_retry + 1'b1;
  assign req_payload = {38'd0, num_phy_reinit, next_num, 8'd0, req_eseq};
  assign ack_payload = {32'd0, num_free_buf, eseq_q, wr_ptr, echo_q, 1'b0, 1'b0,
                        wr_ptr == eseq_q};

  assign subtype = !last ? SUB_RETRY_FRAME : is_ack_q ? SUB_RETRY_ACK : SUB_RETRY_REQ;
  assign payload = !last ? 64'd0 : is_ack_q ? ack_payload : req_payload;
  assign slot    = control_slot(LLCTRL_RETRY, subtype, 1'b0, 4'd0, 4'd0, payload);

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      active_q <= 1'b0;
      count_q  <= '0;
    end else if (cancel) begin
      active_q <= 1'b0;
      count_q  <= '0;
    end else if (fire) begin
      active_q <= !last;
      count_q  <= last ? '0 : count_q + 1'b1;
    end
  end

  always_ff @(posedge clk) begin
    if (!active_q) is_ack_q <= want_ack;
    if (ack_begun) begin
      eseq_q <= ack_eseq;
      echo_q <= ack_num_retry;
    end
  end

  `NF_ASSERT_NEVER(ReqNotWanted_A, req_sent && !want_req)
  `NF_ASSERT_NEVER(FramesLeft_A, !active_q && count_q != '0)  // a sequence begins with all five

  `NF_WAVE_NAME(subtype_name, subtype, retry_subtype_name)
endmodule

`default_nettype wire
