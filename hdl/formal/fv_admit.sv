// SPDX-License-Identifier: Apache-2.0
// nf_admit: each message that is taken goes on once, unchanged, and has a place for its answer, of
// which there are never more than the queues hold; a MemSpecRd alone goes nowhere. Assumed: only
// what was reserved is sent.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_admit
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
  parameter int NDR_DEPTH = 3,
  parameter int DRS_DEPTH = 2
) (
  input wire logic     clk,
  input wire logic     req_valid,
  input wire m2s_req_t req,
  input wire logic     rwd_valid,
  input wire m2s_rwd_t rwd,
  input wire logic     out_ready,
  input wire logic     ndr_sent,
  input wire logic     drs_sent
);
  logic       req_ready, rwd_ready, out_valid;
  access_t    out_msg;
  logic [7:0] ndr_reserved, drs_reserved;

  `NF_FORMAL_RESET

  nf_admit #(.NDR_DEPTH(NDR_DEPTH), .DRS_DEPTH(DRS_DEPTH)) dut (.*);

  // ---- reference: the message on its way, and the places that are kept --------------------------
  logic       took_req, took_rwd, spec, read, goes_on, on_way_q;
  logic [7:0] ndr_q, drs_q;
  access_t    msg_q;

  assign took_req = req_valid && req_ready;
  assign took_rwd = rwd_valid && rwd_ready;
  assign spec     = req.opcode == REQ_MEM_SPEC_RD;
  assign read     = req.opcode == REQ_MEM_RD || req.opcode == REQ_MEM_RD_DATA ||
                    req.opcode == REQ_MEM_RD_FWD;
  assign goes_on  = took_rwd || (took_req && !spec);

  `NF_ASSUME(SendsWhatIsKept_M, (!ndr_sent || ndr_q != '0) && (!drs_sent || drs_q != '0))

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      on_way_q <= 1'b0;
      ndr_q    <= '0;
      drs_q    <= '0;
    end else begin
      on_way_q <= goes_on || (on_way_q && !out_ready);
      ndr_q    <= ndr_q + 8'(took_rwd || (took_req && !spec && !read)) - 8'(ndr_sent);
      drs_q    <= drs_q + 8'(took_req && read) - 8'(drs_sent);
    end
  end
  always_ff @(posedge clk) begin
    if (goes_on) msg_q <= took_rwd ? access_of_rwd(rwd) : access_of_req(req);
  end

  `NF_ASSERT_NEVER(OneAClock_A, took_req && took_rwd)
  `NF_ASSERT_NEVER(Lost_A, goes_on && on_way_q && !out_ready)
  `NF_ASSERT(GoesOn_A, out_valid == on_way_q)
  `NF_ASSERT_NEVER(Changed_A, on_way_q && out_msg != msg_q)
  `NF_ASSERT(Places_A, ndr_reserved == ndr_q && drs_reserved == drs_q &&
                       32'(ndr_q) <= NDR_DEPTH && 32'(drs_q) <= DRS_DEPTH)

  `NF_COVER(BothFull_C, 32'(ndr_q) == NDR_DEPTH && 32'(drs_q) == DRS_DEPTH && out_valid)
  `NF_COVER(ReadPastWrites_C, 32'(ndr_q) == NDR_DEPTH && rwd_valid && took_req && read)
endmodule

`default_nettype wire
