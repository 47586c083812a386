// SPDX-License-Identifier: Apache-2.0
// One end of a link, as far as its retry goes (for fv_retry_link): the state machines, the retry
// buffer and the sequences of nf_link, wired as there. What stands between them and the pins is
// short: a flit is a control slot, or a retryable one of PAYLOAD_W bits that holds its number and
// how many flits of the peer it acknowledges. The order of precedence is that of nf_link_tx.

`default_nettype none

module fv_retry_peer
  import nf_pkg::*, nf_link_pkg::*, nf_ram_pkg::*;
#(
  parameter int DEPTH         = 4,
  parameter int RETRY_TIMEOUT = 8
) (
  input  wire logic                 clk,
  input  wire logic                 rst_n,
  input  wire logic                 phy_up,
  input  wire logic                 send,       // there is something new to send

  input  wire logic                 rx_valid,
  input  wire logic                 rx_bad,     // it came with a wrong CRC
  input  wire logic                 rx_control,
  input  wire logic [SLOT_W-1:0]    rx_slot,
  input  wire logic [PAYLOAD_W-1:0] rx_payload,

  output logic                      tx_valid,
  output logic                      tx_control,
  output logic [SLOT_W-1:0]         tx_slot,
  output logic [PAYLOAD_W-1:0]      tx_payload,

  output logic                      consumed,   // a retryable flit was taken
  output logic [PAYLOAD_W-3:0]      number,     // its number
  output logic                      stored,     // a new flit left
  output logic [1:0]                freed,      // flits of this end that the peer has acknowledged
  output logic                      retried,    // RETRY.Ack brought this end back
  output logic                      wrong       // what must never be seen
);
  localparam int NUMBER_W = PAYLOAD_W - 2;

  // ---- receive ---------------------------------------------------------------------------------
  logic       seen, lost, got_frame, got_req, got_ack, normal, discard, quiet, local_idle, aborted;
  logic [3:0] subtype;

  assign subtype   = rx_slot[39:36];
  assign lost      = rx_valid && rx_bad;
  assign seen      = rx_valid && !rx_bad && !discard;
  assign got_frame = seen && rx_control && (subtype == SUB_RETRY_FRAME);
  assign got_req   = seen && rx_control && (subtype == SUB_RETRY_REQ);
  assign got_ack   = seen && rx_control && (subtype == SUB_RETRY_ACK);
  assign consumed  = seen && !rx_control && normal;
  assign number    = rx_payload[NUMBER_W-1:0];

  // ---- the parts of nf_link --------------------------------------------------------------------
  logic                 want_req, want_ack, ack_begun, ack_sent, ack_active, req_sent, req_held;
  logic                 bad_req, bad_ack, ack_error, chosen, retrain_request;
  logic                 ev_local, ev_timeout, ev_phy_reinit, ev_abort;
  lrsm_e                lrsm;
  logic [SEQ_W-1:0]     eseq, ack_eseq, rewind_to, wr_ptr, free;
  logic [RETRY_W-1:0]   num_retry, num_phy_reinit, ack_num_retry;
  logic                 ctl_valid, ctl_ready, replay_valid, replay_ready, new_valid, new_ready;
  logic [SLOT_W-1:0]    ctl_slot;
  logic [PAYLOAD_W-1:0] replay_flit, new_flit;
  logic                 replay_adf, replay_run, replay_bad, rewind_adf;
  ram_flip_t            ram_flip;
  ram_fault_t           ram_fault;

  assign ram_flip = '0;

  nf_link_lrsm #(.RETRY_TIMEOUT(RETRY_TIMEOUT)) u_lrsm (
    .clk, .rst_n, .phy_up, .retrain_request, .lost, .good_retryable(consumed), .got_init(1'b0),
    .init_wrap(8'd0), .got_frame, .got_req, .got_ack, .got_other(seen && !got_frame), .req_held,
    .rx_eseq(rx_slot[71:64]), .rx_num_retry(rx_slot[84:80]), .rx_echo(rx_slot[71:67]),
    .rx_empty(rx_slot[64]), .normal, .discard, .quiet, .local_idle, .aborted, .lrsm, .want_req,
    .eseq, .num_retry, .num_phy_reinit, .req_sent, .want_ack, .ack_eseq, .ack_num_retry,
    .ack_begun, .tx_flit(chosen), .ev_local, .ev_timeout, .ev_phy_reinit, .ev_abort, .bad_req,
    .bad_ack
  );

  nf_link_retry_seq u_seq (
    .clk, .rst_n, .cancel(quiet), .want_ack, .ack_eseq, .ack_num_retry, .wr_ptr,
    .num_free_buf(free), .want_req, .req_eseq(eseq), .num_retry, .num_phy_reinit,
    .valid(ctl_valid), .ready(ctl_ready), .slot(ctl_slot), .ack_begun, .ack_sent, .rewind_to,
    .req_sent, .ack_active
  );

  nf_link_retry_buffer #(.DEPTH(DEPTH), .ECC(0)) u_buffer (
    .clk, .rst_n, .ram_flip, .ram_fault, .store(stored), .store_flit(new_flit), .store_adf(1'b0),
    .store_run(1'b0), .ack(consumed && rx_payload[NUMBER_W +: 2] != 2'd0),
    .ack_count(NUM_ACK_W'(rx_payload[NUMBER_W +: 2])), .ack_error, .asked(rx_slot[71:64]),
    .asked_held(req_held), .peek(ack_begun), .peek_at(ack_eseq), .restore(quiet),
    .rewind(ack_sent), .rewind_to, .rewind_adf, .replay_valid, .replay_ready, .replay_flit,
    .replay_adf, .replay_run, .replay_bad, .wr_ptr, .free
  );

  // ---- send ------------------------------------------------------------------------------------
  logic [1:0]          owed_q;    // flits of the peer that are to be acknowledged
  logic [NUMBER_W-1:0] number_q;  // of the next new flit

  assign new_valid    = send && ((free > SEQ_W'(2)) || (free == SEQ_W'(2) && owed_q != 2'd0));
  assign new_flit     = {owed_q, number_q};
  assign ctl_ready    = !quiet;
  assign replay_ready = !quiet && !ctl_valid;
  assign new_ready    = !quiet && !ctl_valid && !replay_valid;
  assign chosen       = !quiet && (ctl_valid || replay_valid || new_valid || local_idle);
  assign stored       = new_valid && new_ready;
  assign freed        = consumed ? rx_payload[NUMBER_W +: 2] : 2'd0;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      tx_valid <= 1'b0;
      owed_q   <= '0;
      number_q <= '0;
    end else begin
      tx_valid <= chosen;
      owed_q   <= (stored ? 2'd0 : owed_q) + 2'(consumed);
      number_q <= number_q + NUMBER_W'(stored);
    end
  end

  always_ff @(posedge clk) begin
    tx_control <= ctl_valid || !(replay_valid || new_valid);
    tx_payload <= replay_valid ? replay_flit : new_flit;
    tx_slot    <= ctl_valid ? ctl_slot
                            : control_slot(LLCTRL_RETRY, SUB_RETRY_IDLE, 1'b0, 4'd0, 4'd0, 64'd0);
  end

  assign retried = got_ack && local_idle && !quiet && u_lrsm.ack_match;
  assign wrong   = ack_error || bad_req || bad_ack || (!stored && consumed && owed_q == 2'd3);
endmodule

`default_nettype wire
