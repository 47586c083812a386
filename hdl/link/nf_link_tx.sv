// SPDX-License-Identifier: Apache-2.0
// Transmit end: chooses between non-retryable control flits and new flits, adds the CRC, drives the
// pins. Two register stages (flit, flit with CRC), one flit a clock.
//
// New flits: valid/ready, `new_run` marks one whose all-data flits follow; nothing is put between
// them. RETRY.Idle fills in while `idle_request` and no new flit is there. Pins: `tx_valid` with
// `tx_flit` and `tx_protocol_id` stable until `tx_ready`; `tx_valid` low when there is nothing to
// send.

`default_nettype none
`include "nf_assert.svh"

module nf_link_tx
  import nf_link_pkg::*;
(
  input  wire logic                 clk,
  input  wire logic                 rst_n,

  input  wire logic                 idle_request,

  input  wire logic                 new_valid,
  output logic                      new_ready,
  input  wire logic [PAYLOAD_W-1:0] new_flit,
  input  wire logic                 new_run,

  output logic                      tx_valid,
  output logic [15:0]               tx_protocol_id,
  output logic [FLIT_W-1:0]         tx_flit,
  input  wire logic                 tx_ready
);
  logic                 valid1_q, valid2_q, run_q, ready1, ready2, idle;
  logic [PAYLOAD_W-1:0] flit1_q;
  logic [FLIT_W-1:0]    flit2_q;
  logic [CRC_W-1:0]     crc;
  logic [SLOT_W-1:0]    idle_slot;

  assign idle_slot = control_slot(LLCTRL_RETRY, SUB_RETRY_IDLE, 1'b0, 4'd0, 4'd0, 64'd0);

  assign ready2    = !valid2_q || tx_ready;
  assign ready1    = !valid1_q || ready2;
  assign idle      = idle_request && !run_q && !new_valid;
  assign new_ready = ready1;

  nf_crc16 u_crc (.payload(flit1_q), .crc(crc));

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      valid1_q <= 1'b0;
      valid2_q <= 1'b0;
      run_q    <= 1'b0;
    end else begin
      if (ready1) valid1_q <= new_valid || idle;
      if (ready2) valid2_q <= valid1_q;
      if (new_valid && new_ready) run_q <= new_run;
    end
  end

  always_ff @(posedge clk) begin
    if (ready1) flit1_q <= new_valid ? new_flit : {384'd0, idle_slot};
    if (ready2) flit2_q <= {crc, flit1_q};
  end

  assign tx_valid       = valid2_q;
  assign tx_flit        = flit2_q;
  assign tx_protocol_id = {PID_CACHEMEM, PID_CACHEMEM};

  // ---- checks ----------------------------------------------------------------------------------
  `NF_ASSERT_NEVER(RunSplit_A, run_q && idle)
  `NF_ASSERT_NEVER(RunStarved_A, run_q && !new_valid)
`ifdef VERILATOR
  TxStable_A: assert property (@(posedge clk) disable iff (!rst_n)
                               (tx_valid && !tx_ready) |=> (tx_valid && $stable(tx_flit)))
    else $error("[ASSERT FAILED] %m: TxStable_A");
`endif
endmodule

`default_nettype wire
