// SPDX-License-Identifier: Apache-2.0
// The one place where new retryable flits are emitted (link spec §6-§9). Combinational.
//
// Order of precedence: INIT.Param (before anything else can be there), flits of the packer, LLCRD
// last. An all-data run is never split: while one is owed the packer always has a flit. `new_run`
// says that the flit is followed by all-data flits which belong to it. A retry buffer sits behind
// this module.

`default_nettype none

module nf_link_tx_arb
  import nf_link_pkg::*;
#(
  parameter int RETRY_DEPTH = 64
) (
  input  wire logic                 param_valid,
  output logic                      param_ready,

  input  wire logic                 pack_valid,
  output logic                      pack_ready,
  input  wire logic [PAYLOAD_W-1:0] pack_flit,
  input  wire logic                 pack_header,
  input  wire logic                 pack_run,

  input  wire logic                 force_llcrd,
  input  wire logic [NUM_ACK_W-1:0] full_ack,
  input  wire logic [3:0]           req_crd,
  input  wire logic [3:0]           data_crd,

  output logic                      header_sent,   // a protocol flit left with Ak and credits
  output logic                      llcrd_sent,

  output logic                      new_valid,
  input  wire logic                 new_ready,
  output logic [PAYLOAD_W-1:0]      new_flit,
  output logic                      new_run
);
  if ((RETRY_DEPTH < 22) || (RETRY_DEPTH > 255)) begin : g_bad_depth
    initial $fatal(1, "nf_link: RETRY_DEPTH must be 22..255");
  end

  logic [SLOT_W-1:0] param_slot, llcrd_slot;

  assign param_slot = control_slot(LLCTRL_INIT, SUB_INIT_PARAM, 1'b0, 4'd0, 4'd0,
                                   {32'd0, 8'(RETRY_DEPTH - 1), 20'd0, INIT_VERSION});
  assign llcrd_slot = control_slot(LLCTRL_LLCRD, SUB_LLCRD_ACK, full_ack[3], req_crd, data_crd,
                                   {56'd0, full_ack[7:4], 1'b0, full_ack[2:0]});

  assign param_ready = new_ready;
  assign pack_ready  = new_ready && !param_valid;
  assign header_sent = pack_valid && pack_ready && pack_header;
  assign llcrd_sent  = force_llcrd && new_ready && !param_valid && !pack_valid;

  assign new_valid = param_valid || pack_valid || force_llcrd;
  assign new_run   = !param_valid && pack_valid && pack_run;
  assign new_flit  = param_valid ? {384'd0, param_slot} :
                     pack_valid  ? pack_flit : {384'd0, llcrd_slot};
endmodule

`default_nettype wire
