// SPDX-License-Identifier: Apache-2.0
// Lets requests (Req) and writes (RwD) of the link into the core, one a clock.
//
// A transaction is admitted only when a place for its answer is reserved in the response queue of
// its class, so nothing inside the core can ever block on the link, and a host that grants no DRS
// credits still gets its writes done (and the other way round).
// MemSpecRd needs no answer and is dropped here.
//
// Handshake: valid/ready. `out_*` is a register: it is stable until taken.

`default_nettype none
`include "nf_assert.svh"

module nf_admit
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
  parameter int NDR_DEPTH = 64,
  parameter int DRS_DEPTH = 64
) (
  input  wire logic     clk,    // clock, rising edge
  input  wire logic     rst_n,  // asynchronous reset, active low

  input  wire logic     req_valid,  // Req valid
  output logic          req_ready,  // Req taken
  input  wire m2s_req_t req,        // Req of the host
  input  wire logic     rwd_valid,  // RwD valid
  output logic          rwd_ready,  // RwD taken
  input  wire m2s_rwd_t rwd,        // RwD of the host, with its whole line

  output logic          out_valid,  // admitted message valid
  input  wire logic     out_ready,  // admitted message taken
  output access_t       out_msg,  // a Req leaves data, be, poison and illegal zero

  input  wire logic     ndr_sent,      // a response left its queue: its place is free again
  input  wire logic     drs_sent,      // the same for DRS
  output logic [7:0]    ndr_reserved,  // admitted and not yet handed to the link
  output logic [7:0]    drs_reserved   // the same for DRS
);
  logic [7:0] ndr_q, drs_q;
  logic       valid_q, last_rwd_q;
  access_t    msg_q;
  logic       req_is_spec, req_wants_ndr;
  logic       space, ndr_room, drs_room, req_ok, rwd_ok, take_req, take_rwd;
  logic       ndr_add, drs_add;

  assign req_is_spec   = (req.opcode == REQ_MEM_SPEC_RD);
  // Only reads and the read-like MemRdFwd are answered with data.
  assign req_wants_ndr = !(req.opcode == REQ_MEM_RD || req.opcode == REQ_MEM_RD_DATA
                           || req.opcode == REQ_MEM_RD_FWD);
  assign ndr_room = (ndr_q < 8'(NDR_DEPTH));
  assign drs_room = (drs_q < 8'(DRS_DEPTH));
  assign space    = !valid_q || out_ready;
  assign req_ok   = req_valid && (req_is_spec || (req_wants_ndr ? ndr_room : drs_room));
  assign rwd_ok   = rwd_valid && ndr_room;
  assign take_rwd = space && rwd_ok && (!req_ok || !last_rwd_q);
  assign take_req = space && req_ok && !take_rwd;

  assign rwd_ready = take_rwd;
  assign req_ready = take_req;

  assign ndr_add = take_rwd || (take_req && req_wants_ndr && !req_is_spec);
  assign drs_add = take_req && !req_wants_ndr;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      valid_q    <= 1'b0;
      last_rwd_q <= 1'b0;
      ndr_q      <= '0;
      drs_q      <= '0;
    end else begin
      if (take_rwd || (take_req && !req_is_spec)) valid_q <= 1'b1;
      else if (out_ready) valid_q <= 1'b0;
      if (take_rwd) last_rwd_q <= 1'b1;
      else if (take_req) last_rwd_q <= 1'b0;
      ndr_q <= ndr_q + 8'(ndr_add) - 8'(ndr_sent);
      drs_q <= drs_q + 8'(drs_add) - 8'(drs_sent);
    end
  end

  always_ff @(posedge clk) begin
    if (take_rwd) msg_q <= access_of_rwd(rwd);
    else if (take_req) msg_q <= access_of_req(req);
  end

  assign out_valid    = valid_q;
  assign out_msg      = msg_q;
  assign ndr_reserved = ndr_q;
  assign drs_reserved = drs_q;

  `NF_ASSERT_NEVER(NdrOver_A, ndr_q > 8'(NDR_DEPTH))
  `NF_ASSERT_NEVER(DrsOver_A, drs_q > 8'(DRS_DEPTH))
  `NF_ASSERT_NEVER(NdrUnder_A, ndr_sent && ndr_q == 8'd0)
  `NF_ASSERT_NEVER(DrsUnder_A, drs_sent && drs_q == 8'd0)
`ifdef NF_CHECKED
  // One that could go was passed by one of the other kind: it is its turn.
  logic req_passed_q, rwd_passed_q;
  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      req_passed_q <= 1'b0;
      rwd_passed_q <= 1'b0;
    end else begin
      if (take_req) req_passed_q <= 1'b0;
      else if (take_rwd && req_ok) req_passed_q <= 1'b1;
      if (take_rwd) rwd_passed_q <= 1'b0;
      else if (take_req && rwd_ok) rwd_passed_q <= 1'b1;
    end
  end
  `NF_ASSERT_NEVER(Passed_A, (req_passed_q && !last_rwd_q) || (rwd_passed_q && last_rwd_q))
  `NF_ASSERT_NEVER(ReqTurn_A, take_rwd && req_ok && req_passed_q)
  `NF_ASSERT_NEVER(RwdTurn_A, take_req && rwd_ok && rwd_passed_q)
`endif
  `NF_ASSERT_KEEPS(OutStable_A, out_valid && !out_ready, {out_valid, out_msg})
endmodule

`default_nettype wire
