// SPDX-License-Identifier: Apache-2.0
// CXL.mem link front-end, 68-byte flits, with link-level retry (link spec): flits at the pins,
// messages inside.
//
// Receive: one flit a clock, no back-pressure; credits protect the queues. `req` and `rwd` are
// valid/ready streams out of queues as deep as the credits granted; taking a message returns its
// credit. Transmit: `ndr` and `drs` are valid/ready streams; each waits for its own credits only.
// `tx_*` is stable until `tx_ready`. Latency in clocks, idle: rx pins to req 2, last data flit to
// rwd 2, drs or ndr to tx pins 3.
//
// Retry: nothing of it is seen at the streams; a lost flit only delays them. `retrain_request` asks
// for a reinit of the physical layer: a level, until `phy_up` falls. A fall of `phy_up` at any time
// loses nothing as long as the peer sees it too. In RETRY_ABORT the link is dead until reset:
// `link_up` is 0, nothing is sent, everything received is dropped, and `ndr` and `drs` are taken
// and dropped so that the core can run empty. `status.error_kind` and `events` are strobes.

`default_nettype none
`include "nf_assert.svh"
`include "nf_wave.svh"

module nf_link
  import nf_pkg::*, nf_link_pkg::*, nf_ram_pkg::*;
#(
  parameter int REQ_CREDITS   = 64,
  parameter int RWD_CREDITS   = 32,
  parameter int RETRY_DEPTH   = 64,
  parameter int RETRY_TIMEOUT = 4096, // TIMEOUT in flits; link spec §9: 4096 or more
  parameter int ECC           = 1,
  parameter int INJECT_DATA   = 0
) (
  input  wire logic         clk,                // clock, rising edge
  input  wire logic         rst_n,              // asynchronous reset, active low
  input  wire ram_flip_t    ram_flip,           // bit of a protected RAM to flip (RAS_INJECT)
  output logic [2*RAM_FAULT_W-1:0] ram_faults,  // RAM_WRITES, RAM_RETRY

  input  wire logic         rx_valid,        // a flit arrives; no back-pressure
  input  wire logic [15:0]  rx_protocol_id,  // Protocol ID of the flit
  input  wire logic [527:0] rx_flit,         // flit with CRC

  output logic              tx_valid,        // flit valid
  output logic [15:0]       tx_protocol_id,  // Protocol ID of the flit
  output logic [527:0]      tx_flit,         // flit with CRC
  input  wire logic         tx_ready,        // flit taken

  input  wire logic         phy_up,           // the physical layer is up
  output logic              retrain_request,  // level: the physical layer should reinitialise

  input  wire logic         multi_header,  // send H5 and G6; may change at any time

  output logic              req_valid,  // Req valid
  input  wire logic         req_ready,  // Req taken
  output m2s_req_t          req,        // Req of the host

  output logic              rwd_valid,  // RwD valid
  input  wire logic         rwd_ready,  // RwD taken
  output m2s_rwd_t          rwd,        // RwD of the host, with its whole line

  input  wire logic         ndr_valid,  // completion valid
  output logic              ndr_ready,  // completion taken
  input  wire s2m_ndr_t     ndr,        // completion (NDR)

  input  wire logic         drs_valid,  // answer with data valid
  output logic              drs_ready,  // answer with data taken
  output logic              drs_gone,  // no DRS taken is left inside (or none will ever leave)
  input  wire s2m_drs_t     drs,        // answer with data (DRS)

  output logic              link_up,  // initialisation is complete
  output link_status_t      status,   // state of the link, and the error of this cycle
  output link_events_t      events    // event strobes
);
  localparam int REQ_CNT_W = $clog2(REQ_CREDITS + 1);
  localparam int RWD_CNT_W = $clog2(RWD_CREDITS + 1);

  // ---- receive: frame, judge, unpack -----------------------------------------------------------
  logic                 flit_valid, lost;
  logic [PAYLOAD_W-1:0] flit;
  logic                 rx_event, crc_error, pid_correctable, pid_uncorrectable, pid_unexpected;

  nf_link_rx_frame u_rx_frame (
    .clk, .rst_n,
    .phy_up, .rx_valid,
    .rx_protocol_id, .rx_flit,
    .flit_valid, .flit,
    .lost,
    .rx_event, .crc_error,
    .pid_correctable, .pid_uncorrectable,
    .pid_unexpected
  );

  logic       any_clean, init_received, good_retryable, take_protocol, take_adf, take_credits;
  logic       take_init, take_ack, got_frame, got_req, got_ack, got_other, broken, control_error;
  logic       normal, discard, quiet, local_idle, aborted;
  logic [3:0] owed;
  link_error_e control_kind;
  logic [NUM_ACK_W-1:0] acked;

  nf_link_rx_ctrl u_rx_ctrl (
    .clk, .rst_n,
    .flit_valid, .flit,
    .adf_due(owed > 4'd3), .normal,
    .discard, .any_clean,
    .init_received, .good_retryable,
    .take_protocol, .take_adf,
    .take_init, .take_credits,
    .take_ack, .ack_count(acked),
    .got_frame, .got_req,
    .got_ack, .got_other,
    .broken,
    .protocol_error(control_error), .error_kind(control_kind)
  );

  logic [1:0]  req_found, req_accept, rwd_accept;
  m2s_req_t    req0, req1;
  logic        hdr_valid, hdr_illegal, rwd_overrun, req_overrun;
  rwd_header_t hdr;
  logic [3:0]  hdr_slots;
  logic [3:1]  is_data, after_hdr;
  logic        slot_error, stray_data, cache_message;

  nf_link_rx_slots u_rx_slots (
    .take(take_protocol), .formats(flit[16:5]),
    .hdr_be(flit[3]), .hdr_sz(flit[4]),
    .flit(flit[PAYLOAD_W-1:32]), .owed,
    .req_valid(req_found), .req0,
    .req1, .hdr_valid,
    .hdr,
    .hdr_slots, .hdr_illegal,
    .is_data, .after_hdr,
    .protocol_error(slot_error), .cache_message
  );

  logic       rwd_push, rwd_room;
  logic [1:0] rwd_busy;
  m2s_rwd_t   rwd_in;

  nf_link_rx_data u_rx_data (
    .clk, .rst_n,
    .take_protocol, .take_adf,
    .flit, .hdr_valid,
    .hdr, .hdr_slots,
    .hdr_illegal,
    .hdr_drop(rwd_accept == 2'd0), .is_data,
    .after_hdr, .owed,
    .busy(rwd_busy), .stray_data,
    .out_valid(rwd_push), .out(rwd_in)
  );

  // ---- receive queues; a message taken out returns its credit ----------------------------------
  logic [REQ_CNT_W-1:0] req_count;
  logic [RWD_CNT_W-1:0] rwd_count;

  nf_link_req_queue #(.DEPTH(REQ_CREDITS)) u_req_queue (
    .clk, .rst_n,
    .in_valid({req_accept[1], |req_accept}), .in0(req0),
    .in1(req1),
    .out_valid(req_valid), .out_ready(req_ready),
    .out(req), .count(req_count)
  );

  // Data that cannot be trusted any more goes on as poisoned.
  m2s_rwd_t   rwd_held;
  logic       rwd_bad;
  ram_fault_t rwd_fault, retry_fault;

  nf_data_fifo #(
    .RAM(RAM_WRITES), .ECC(ECC), .INJECT_DATA(INJECT_DATA),
    .WIDTH($bits(m2s_rwd_t)), .DEPTH(RWD_CREDITS), .BLOCK(1)
  ) u_rwd_queue (
    .clk, .rst_n,
    .flip(ram_flip), .fault(rwd_fault),
    .in_valid(rwd_push), .in_ready(rwd_room),
    .in_data(rwd_in), .out_valid(rwd_valid),
    .out_ready(rwd_ready), .out_data(rwd_held),
    .out_bad(rwd_bad), .count(rwd_count)
  );
  always_comb begin
    rwd        = rwd_held;
    rwd.poison = rwd_held.poison || rwd_bad;
  end
  assign ram_faults = {retry_fault, rwd_fault};

  // ---- credits and acknowledgements ------------------------------------------------------------
  logic       header_sent, llcrd_sent, grant, req_pending, rwd_pending;
  logic [2:0] req_code, rwd_code;
  logic [3:0] req_crd, data_crd;

  assign grant    = header_sent || llcrd_sent;
  assign req_crd  = credit_nibble(req_code);
  assign data_crd = credit_nibble(rwd_code);

  nf_link_credit_return #(.CREDITS(REQ_CREDITS)) u_req_credits (
    .clk, .rst_n,
    .arrive({req_found[1], req_found[0] && !req_found[1]}), .accept(req_accept),
    .overrun(req_overrun), .release_one(req_valid && req_ready),
    .pending(req_pending),
    .code(req_code), .grant,
    .held(req_count)
  );

  nf_link_credit_return #(.CREDITS(RWD_CREDITS)) u_rwd_credits (
    .clk, .rst_n,
    .arrive({1'b0, hdr_valid}), .accept(rwd_accept),
    .overrun(rwd_overrun),
    .release_one(rwd_valid && rwd_ready), .pending(rwd_pending),
    .code(rwd_code), .grant,
    .held(rwd_count + RWD_CNT_W'(rwd_busy))
  );

  logic                 up, ack8, force_llcrd;
  logic [NUM_ACK_W-1:0] full_ack;

  nf_link_ack u_ack (
    .clk, .rst_n,
    .link_up(up), .good_retryable,
    .credits_pending(req_pending || rwd_pending),
    .header_sent, .llcrd_sent,
    .ack8, .full_ack,
    .force_llcrd
  );

  logic [PEER_CREDIT_W-1:0] drs_credits, ndr_credits;
  logic [1:0]               ndr_pop, drs_sent;

  nf_link_credit_pool u_drs_pool (
    .clk, .rst_n,
    .add(take_credits), .nibble(flit[31:28]),
    .spend(drs_sent), .count(drs_credits)
  );

  nf_link_credit_pool u_ndr_pool (
    .clk, .rst_n,
    .add(take_credits), .nibble(flit[23:20]),
    .spend(ndr_pop), .count(ndr_credits)
  );

  // ---- retry state machines --------------------------------------------------------------------
  logic               want_req, want_ack, ack_begun, ack_sent, ack_active, req_sent, req_held;
  logic               bad_req, bad_ack, ack_error, chosen, silent;
  logic               ev_local, ev_timeout, ev_phy_reinit, ev_abort;
  lrsm_e              lrsm;
  logic [SEQ_W-1:0]   eseq, ack_eseq, rewind_to, wr_ptr, free;
  logic [RETRY_W-1:0] num_retry, num_phy_reinit, ack_num_retry;

  nf_link_lrsm #(.RETRY_TIMEOUT(RETRY_TIMEOUT)) u_lrsm (
    .clk, .rst_n,
    .phy_up, .retrain_request,
    .lost(lost || broken), .good_retryable,
    .got_init(take_init),
    .init_wrap(flit[95:88]), .got_frame,
    .got_req, .got_ack,
    .got_other, .req_held,
    .rx_eseq(flit[71:64]), .rx_num_retry(flit[84:80]),
    .rx_echo(flit[71:67]), .rx_empty(flit[64]),
    .normal, .discard,
    .quiet, .local_idle,
    .aborted, .lrsm,
    .want_req, .eseq,
    .num_retry,
    .num_phy_reinit, .req_sent,
    .want_ack, .ack_eseq,
    .ack_num_retry, .ack_begun,
    .tx_flit(chosen),
    .ev_local, .ev_timeout,
    .ev_phy_reinit, .ev_abort,
    .bad_req, .bad_ack
  );

  logic              ctl_valid, ctl_ready;
  logic [SLOT_W-1:0] ctl_slot;

  nf_link_retry_seq u_retry_seq (
    .clk, .rst_n,
    .cancel(quiet), .want_ack,
    .ack_eseq, .ack_num_retry,
    .wr_ptr,
    .num_free_buf(free), .want_req(want_req && !silent),
    .req_eseq(eseq), .num_retry,
    .num_phy_reinit, .valid(ctl_valid),
    .ready(ctl_ready), .slot(ctl_slot),
    .ack_begun, .ack_sent,
    .rewind_to, .req_sent,
    .ack_active
  );

  // ---- transmit: pack, initialise, choose ------------------------------------------------------
  logic       drs_empty, has_new;
  logic       ndr_room, drs_room, room_drs, room_multi;
  logic [2:0] ndr_count;
  s2m_ndr_t   ndr0, ndr1;

  assign ndr_ready = ndr_room || aborted;
  assign drs_ready = drs_room || aborted;
  assign drs_gone  = (drs_empty && !has_new) || aborted;

  nf_link_ndr_queue u_ndr_queue (
    .clk, .rst_n,
    .in_valid(ndr_valid), .in_ready(ndr_room),
    .in_data(ndr),
    .count(ndr_count), .head0(ndr0),
    .head1(ndr1), .pop(ndr_pop)
  );

  logic                 pack_valid, pack_ready, pack_header, pack_run;
  logic [PAYLOAD_W-1:0] pack_flit;

  nf_link_tx_pack u_tx_pack (
    .clk, .rst_n,
    .enable(up), .multi_header,
    .room_drs, .room_multi,
    .ndr_count, .ndr0,
    .ndr1,
    .ndr_pop, .drs_valid,
    .drs_ready(drs_room), .drs,
    .drs_sent,
    .drs_empty, .ndr_credits,
    .drs_credits, .ak(ack8),
    .req_crd, .data_crd,
    .flit_valid(pack_valid),
    .flit_ready(pack_ready), .flit(pack_flit),
    .header(pack_header), .run(pack_run)
  );

  logic idle_request, param_valid, param_ready, new_valid, new_ready, new_adf, new_run;
  logic [PAYLOAD_W-1:0] new_flit;

  nf_link_init u_init (
    .clk, .rst_n,
    .any_clean, .init_received,
    .silent, .idle_request,
    .param_valid, .param_ready,
    .link_up(up)
  );

  nf_link_tx_arb #(.RETRY_DEPTH(RETRY_DEPTH)) u_tx_arb (
    .clk, .rst_n,
    .free, .room_drs,
    .room_multi, .param_valid,
    .param_ready, .pack_valid,
    .pack_ready, .pack_flit,
    .pack_header, .pack_run,
    .ack8, .force_llcrd,
    .full_ack, .req_crd,
    .data_crd, .header_sent,
    .llcrd_sent, .new_valid,
    .new_ready, .new_flit,
    .new_adf, .new_run
  );

  logic                 replay_valid, replay_ready, replay_adf, replay_run, replay_bad, rewind_adf;
  logic [PAYLOAD_W-1:0] replay_flit;

  nf_link_retry_buffer #(
    .DEPTH(RETRY_DEPTH), .ECC(ECC), .INJECT_DATA(INJECT_DATA)
  ) u_retry_buffer (
    .clk, .rst_n,
    .ram_flip, .ram_fault(retry_fault),
    .store(new_valid && new_ready),
    .store_flit(new_flit), .store_adf(new_adf),
    .store_run(new_run), .ack(take_ack),
    .ack_count(acked), .ack_error,
    .asked(flit[71:64]),
    .asked_held(req_held), .peek(ack_begun),
    .peek_at(ack_eseq), .restore(quiet),
    .rewind(ack_sent),
    .rewind_to, .rewind_adf,
    .replay_valid, .replay_ready,
    .replay_flit, .replay_adf,
    .replay_run,
    .replay_bad, .wr_ptr,
    .free
  );

  nf_link_tx u_tx (
    .clk, .rst_n,
    .quiet, .idle_request(idle_request || local_idle),
    .ctl_valid, .ctl_ready,
    .ctl_slot, .ctl_hold(ack_sent && rewind_adf),
    .replay_valid, .replay_ready,
    .replay_flit,
    .replay_adf, .replay_run,
    .replay_bad, .new_valid,
    .new_ready, .new_flit,
    .new_adf, .new_run,
    .chosen,
    .has_new, .tx_valid,
    .tx_protocol_id, .tx_flit,
    .tx_ready
  );

  // ---- status ----------------------------------------------------------------------------------
  link_error_e  error_kind;
  link_events_t seen;
  logic         credit_error, retry_error;

  assign link_up      = up && !aborted;
  assign credit_error = req_overrun || rwd_overrun;
  assign retry_error  = ack_error || bad_req || bad_ack;

  assign error_kind = ev_abort          ? LINK_ERR_ABORT       :
                      crc_error         ? LINK_ERR_CRC         :
                      pid_uncorrectable ? LINK_ERR_PROTOCOL_ID :
                      control_error     ? control_kind         :
                      slot_error        ? LINK_ERR_SLOT        :
                      credit_error      ? LINK_ERR_CREDIT      :
                      ack_error         ? LINK_ERR_ACK         :
                      bad_req           ? LINK_ERR_RETRY_REQ   :
                      bad_ack           ? LINK_ERR_RETRY_ACK   : LINK_ERR_NONE;

  assign status = make_link_status(lrsm, ack_active ? RRSM_LLRACK : RRSM_NORMAL, aborted,
                                   error_kind);

  always_comb begin
    seen.retry_local       = ev_local;
    seen.retry_remote      = ack_sent;
    seen.retry_timeout     = ev_timeout;
    seen.phy_reinit        = ev_phy_reinit;
    seen.crc_error         = crc_error;
    seen.pid_correctable   = pid_correctable;
    seen.pid_uncorrectable = pid_uncorrectable;
    seen.pid_unexpected    = pid_unexpected;
    seen.stray_data        = stray_data;
    seen.cache_message     = cache_message;
    seen.protocol_error    = control_error || slot_error || credit_error || retry_error;
    seen.rx_flit           = rx_event;
    seen.tx_flit           = tx_valid && tx_ready;
    events                 = seen;  // whole, so that its readers wake once
  end

  `NF_ASSERT_NEVER(RwdOverflow_A, rwd_push && !rwd_room)
  `NF_ASSERT_NEVER(AbortQuiet_A, aborted && (chosen || good_retryable))

  `NF_WAVE_NAME(error_name, error_kind, link_error_name)
endmodule

`default_nettype wire
