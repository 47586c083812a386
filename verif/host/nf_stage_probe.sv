// SPDX-License-Identifier: Apache-2.0
// Tells the C++ host when an access passes a stage of the core, by its tag, and when a client of
// the memory ports asks and is answered. Bound into nf_core where a build asks for it (see
// bulk_build.py); it drives nothing. The numbers are those of Stage, READS and WRITES in
// c_interface.py.

`default_nettype none

module nf_stage_probe
  import nf_pkg::*;
  import nf_core_pkg::*;
(
  input wire logic       clk,
  // Into the core, and into the unit that does the access.
  input wire logic       req_valid, req_ready, rwd_valid, rwd_ready,
  input wire m2s_req_t   req,
  input wire m2s_rwd_t   rwd,
  input wire logic       op_valid, op_ready, plain_valid, plain_ready,
  input wire engine_op_t op,
  input wire plain_op_t  plain_op,
  // The memory ports, by client.
  input wire logic [2:0] rd_valid, rd_ready, rd_r_valid, rd_r_ready,
  input wire logic [3:0] wr_valid, wr_ready, wr_b,
  // Out of the unit, and out of the core.
  input wire logic       eng_ndr_valid, plain_ndr_ready, eng_drs_valid,
  input wire resp_meta_t eng_ndr_meta, plain_ndr_meta,
  input wire logic       plain_drs_valid, plain_drs_ready, gather_drs_valid, gather_drs_ready,
  input wire answer_t    eng_drs, plain_drs, gather_drs,
  input wire logic       ndr_valid, ndr_ready, drs_valid, drs_ready,
  input wire s2m_ndr_t   ndr,
  input wire s2m_drs_t   drs
);
  import "DPI-C" function void nf_passed(input int stage, input int who);

  localparam int CORE_IN = 0, UNIT_IN = 1, ASKED = 2, ANSWERED = 3, UNIT_OUT = 4, CORE_OUT = 5;
  localparam int WRITES = 16;

  always_ff @(posedge clk) begin
    if (req_valid && req_ready) nf_passed(CORE_IN, 32'(req.tag));
    if (rwd_valid && rwd_ready) nf_passed(CORE_IN, 32'(rwd.tag));
    if (op_valid && op_ready) nf_passed(UNIT_IN, 32'(op.meta.tag));
    if (plain_valid && plain_ready) nf_passed(UNIT_IN, 32'(plain_op.meta.tag));
    for (int c = 0; c < 3; c++) begin
      if (rd_valid[c] && rd_ready[c]) nf_passed(ASKED, c);
      if (rd_r_valid[c] && rd_r_ready[c]) nf_passed(ANSWERED, c);
    end
    for (int c = 0; c < 4; c++) begin
      if (wr_valid[c] && wr_ready[c]) nf_passed(ASKED, WRITES + c);
      if (wr_b[c]) nf_passed(ANSWERED, WRITES + c);
    end
    if (eng_ndr_valid) nf_passed(UNIT_OUT, 32'(eng_ndr_meta.tag));
    if (eng_drs_valid) nf_passed(UNIT_OUT, 32'(eng_drs.meta.tag));
    if (wr_b[1] && plain_ndr_ready) nf_passed(UNIT_OUT, 32'(plain_ndr_meta.tag));
    if (plain_drs_valid && plain_drs_ready) nf_passed(UNIT_OUT, 32'(plain_drs.meta.tag));
    if (gather_drs_valid && gather_drs_ready) nf_passed(UNIT_OUT, 32'(gather_drs.meta.tag));
    if (ndr_valid && ndr_ready) nf_passed(CORE_OUT, 32'(ndr.tag));
    if (drs_valid && drs_ready) nf_passed(CORE_OUT, 32'(drs.tag));
  end
endmodule

bind nf_core nf_stage_probe u_stage_probe (.*);

`default_nettype wire
