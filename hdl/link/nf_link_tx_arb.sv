// SPDX-License-Identifier: Apache-2.0
// The one place where new retryable flits are emitted (link spec §6-§9). Combinational.
//
// Order of precedence: INIT.Param (before anything else can be there), flits of the packer, LLCRD
// last. `free` is NumFreeBuf of the retry buffer after this module: with 2 left only a flit that
// acknowledges something may leave, with 1 none. `room_drs` / `room_multi`: a data header may
// leave, since its all-data run (one flit; up to three after a multi-header slot) ends before
// NumFreeBuf = 2. While a run is owed the packer always has a flit, and room for it. `new_run`:
// all-data flits which belong to it follow the flit.

`default_nettype none
`include "nf_assert.svh"

module nf_link_tx_arb
  import nf_link_pkg::*;
#(
  parameter int RETRY_DEPTH = 64
) (
  input  wire logic                 clk,    // clock, rising edge
  input  wire logic                 rst_n,  // asynchronous reset, active low

  input  wire logic [SEQ_W-1:0]     free,        // NumFreeBuf
  output logic                      room_drs,    // a data header may leave
  output logic                      room_multi,  // a multi-header slot may leave

  input  wire logic                 param_valid,  // INIT.Param waits
  output logic                      param_ready,  // it leaves

  input  wire logic                 pack_valid,   // flit of the packer valid
  output logic                      pack_ready,   // it is taken
  input  wire logic [PAYLOAD_W-1:0] pack_flit,    // flit of the packer
  input  wire logic                 pack_header,  // it has a header
  input  wire logic                 pack_run,     // all-data flits follow it

  input  wire logic                 ack8,         // the header sets Ak
  input  wire logic                 force_llcrd,  // an LLCRD is due
  input  wire logic [NUM_ACK_W-1:0] full_ack,     // acknowledgements of the LLCRD
  input  wire logic [3:0]           req_crd,      // credit field for Req
  input  wire logic [3:0]           data_crd,     // credit field for RwD

  output logic                      header_sent,  // a protocol flit left with Ak and credits
  output logic                      llcrd_sent,   // an LLCRD left

  output logic                      new_valid,  // new flit valid
  input  wire logic                 new_ready,  // it is taken
  output logic [PAYLOAD_W-1:0]      new_flit,   // new flit
  output logic                      new_adf,    // it is an all-data flit
  output logic                      new_run     // all-data flits follow it
);
  logic [SLOT_W-1:0] param_slot, llcrd_slot;
  logic              plenty, last_one, pack_go, llcrd_go;

  assign param_slot = control_slot(LLCTRL_INIT, SUB_INIT_PARAM, 1'b0, 4'd0, 4'd0,
                                   {32'd0, 8'(RETRY_DEPTH - 1), 20'd0, 4'(INIT_VERSION)});
  assign llcrd_slot = control_slot(LLCTRL_LLCRD, SUB_LLCRD_ACK, full_ack[3], req_crd, data_crd,
                                   {56'd0, full_ack[7:4], 1'b0, full_ack[2:0]});

  assign plenty     = (free > SEQ_W'(2));
  assign last_one   = (free == SEQ_W'(2));
  assign room_drs   = (free >= SEQ_W'(4));
  assign room_multi = (free >= SEQ_W'(6));

  assign pack_go  = pack_valid && (plenty || (last_one && ack8 && pack_header));
  assign llcrd_go = force_llcrd && (plenty || (last_one && (full_ack != '0)));

  assign param_ready = new_ready;
  assign pack_ready  = new_ready && pack_go;
  assign header_sent = pack_ready && pack_header;
  assign llcrd_sent  = new_ready && !pack_go && llcrd_go;

  assign new_valid = param_valid || pack_go || llcrd_go;
  assign new_adf   = !pack_header;  // nothing else can leave then
  assign new_run   = pack_run;  // it goes then: see RunBlocked_A
  assign new_flit  = param_valid ? {384'd0, param_slot} :
                     pack_go     ? pack_flit : {384'd0, llcrd_slot};

  // ---- checks ----------------------------------------------------------------------------------
  `NF_ASSERT_NEVER(ParamAlone_A, param_valid && (pack_valid || force_llcrd))
  `NF_ASSERT_NEVER(AdfBlocked_A, pack_valid && !pack_header && !pack_go)
  `NF_ASSERT_NEVER(RunBlocked_A, pack_run && !pack_go)
  `NF_ASSERT_NEVER(NoRoom_A, new_ready && new_valid && (free <= SEQ_W'(1)))
  `NF_ASSERT_NEVER(LastOneAcks_A, new_ready && new_valid && last_one &&
                                  !((header_sent && ack8) || (llcrd_sent && (full_ack != '0))))
endmodule

`default_nettype wire
