// SPDX-License-Identifier: Apache-2.0
// Transmit end: chooses the flit of each clock, adds the CRC, drives the pins (link spec §9). Two
// register stages (flit, flit with CRC), one flit a clock.
//
// Four sources in order of precedence, each valid/ready: RETRY sequences (`ctl_valid`), replay, new
// flits, RETRY.Idle while `idle_request`. After a flit with `replay_run` or `new_run` only the
// all-data flits that it owes may leave; after a RETRY.Ack (`ctl_hold`) the replay at once when it
// begins with an all-data flit. A flit with `replay_bad` leaves with a wrong CRC, so that the host
// takes neither it nor what follows until it has asked again: no run is kept up after it, whatever
// its marks may have been. `quiet` (physical layer down, abort): no new choice; what was chosen
// still leaves. Pins: `tx_valid` with `tx_flit` and `tx_protocol_id` stable until
// `tx_ready`; `tx_valid` low when there is nothing to send.

`default_nettype none
`include "nf_assert.svh"

module nf_link_tx
  import nf_link_pkg::*;
(
  input  wire logic                 clk,    // clock, rising edge
  input  wire logic                 rst_n,  // asynchronous reset, active low

  input  wire logic                 quiet,         // choose nothing new
  input  wire logic                 idle_request,  // send RETRY.Idle if there is nothing else

  input  wire logic                 ctl_valid,  // RETRY flit valid
  output logic                      ctl_ready,  // it is taken
  input  wire logic [SLOT_W-1:0]    ctl_slot,   // slot 0 of the RETRY flit
  input  wire logic                 ctl_hold,   // a replay must follow at once

  input  wire logic                 replay_valid,  // flit to replay valid
  output logic                      replay_ready,  // it is taken
  input  wire logic [PAYLOAD_W-1:0] replay_flit,   // flit to replay
  input  wire logic                 replay_adf,    // it is an all-data flit
  input  wire logic                 replay_run,    // all-data flits must follow it
  input  wire logic                 replay_bad,    // it cannot be trusted: send a wrong CRC

  input  wire logic                 new_valid,  // new flit valid
  output logic                      new_ready,  // it is taken
  input  wire logic [PAYLOAD_W-1:0] new_flit,   // new flit
  input  wire logic                 new_adf,    // it is an all-data flit
  input  wire logic                 new_run,    // all-data flits must follow it

  output logic                      chosen,  // a flit was taken from some source
  output logic                      has_new, // a new flit is on its way to the pins

  output logic                      tx_valid,        // flit valid
  output logic [15:0]               tx_protocol_id,  // Protocol ID of the flit
  output logic [FLIT_W-1:0]         tx_flit,         // flit with CRC
  input  wire logic                 tx_ready         // flit taken
);
  logic                 valid1_q, valid2_q, new1_q, new2_q, run_q, ready1, ready2, go, bad1_q;
  logic                 pick_ctl, pick_replay, pick_new, idle;
  logic [PAYLOAD_W-1:0] flit1_q;
  logic [FLIT_W-1:0]    flit2_q;
  logic [CRC_W-1:0]     crc;
  logic [SLOT_W-1:0]    idle_slot;

  assign idle_slot = control_slot(LLCTRL_RETRY, SUB_RETRY_IDLE, 1'b0, 4'd0, 4'd0, 64'd0);

  assign ready2 = !valid2_q || tx_ready;
  assign ready1 = !valid1_q || ready2;
  assign go     = ready1 && !quiet;

  assign pick_ctl    = ctl_valid && !run_q;
  assign pick_replay = replay_valid && !pick_ctl;
  assign pick_new    = new_valid && !pick_ctl && !replay_valid;
  assign idle        = idle_request && !run_q;  // if there is nothing else

  assign ctl_ready    = go && !run_q;
  assign replay_ready = go && !pick_ctl;
  assign new_ready    = go && !pick_ctl && !replay_valid;
  assign chosen       = go && (pick_ctl || pick_replay || pick_new || idle);

  nf_crc16 u_crc (
    .en(valid1_q), .payload(flit1_q),
    .crc(crc)
  );

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      valid1_q <= 1'b0;
      valid2_q <= 1'b0;
      new1_q   <= 1'b0;
      new2_q   <= 1'b0;
      run_q    <= 1'b0;
    end else begin
      if (ready1) valid1_q <= chosen;
      if (ready2) valid2_q <= valid1_q;
      if (ready1) new1_q <= chosen && pick_new;
      if (ready2) new2_q <= new1_q;
      if (chosen) run_q <= pick_ctl ? ctl_hold : pick_replay ? replay_run && !replay_bad
                                                    : new_run;
    end
  end

  always_ff @(posedge clk) begin
    if (ready1) begin
      flit1_q <= pick_ctl    ? {384'd0, ctl_slot} :
                 pick_replay ? replay_flit :
                 pick_new    ? new_flit : {384'd0, idle_slot};
      bad1_q  <= pick_replay && replay_bad;
    end
    if (ready2) flit2_q <= {crc ^ {CRC_W{bad1_q}}, flit1_q};
  end

  assign has_new        = new1_q || new2_q;
  assign tx_valid       = valid2_q;
  assign tx_flit        = flit2_q;
  assign tx_protocol_id = {PID_CACHEMEM, PID_CACHEMEM};

  // ---- checks ----------------------------------------------------------------------------------
  // In a run nothing but its all-data flits leaves, and outside of it none does. The first flit of
  // a replay is an all-data flit only after its RETRY.Ack. After a flit that could not be trusted
  // the host takes nothing before the next RETRY.Ack.
  logic spoilt_q;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) spoilt_q <= 1'b0;
    else if (chosen && pick_replay && replay_bad) spoilt_q <= 1'b1;
    else if (chosen && pick_ctl && ctl_slot[39:36] == SUB_RETRY_ACK) spoilt_q <= 1'b0;
  end

  `NF_ASSERT_NEVER(RunSplit_A, chosen && run_q && !(pick_replay ? replay_adf || replay_bad
                                                                : pick_new && new_adf))
  `NF_ASSERT_NEVER(StrayAdf_A, chosen && !run_q && !spoilt_q
                               && (pick_replay ? replay_adf && !replay_bad : pick_new && new_adf))
  `NF_ASSERT_NEVER(RunStarved_A, go && run_q && !chosen)
  `NF_ASSERT_NEVER(CrcIdle_A, !valid1_q && crc != '0)
  `NF_ASSERT_NEVER(NewIsFlit_A, (new1_q && !valid1_q) || (new2_q && !valid2_q))
  `NF_ASSERT_KEEPS(TxStable_A, tx_valid && !tx_ready, {tx_valid, tx_flit})
endmodule

`default_nettype wire
