// SPDX-License-Identifier: Apache-2.0
// Packer of S2M messages into flits (link spec §6), without multi-headers. Combinational, apart
// from the line whose data is still owed.
//
// Each flit: first the data slots owed (slots 1..R, or an all-data flit at R = 4), then in slot 0
// one DRS header with an NDR (H3) or two NDRs (H4), and the new line's first chunks in the slots
// left. So lines leave at 4 per 5 flits, and NDRs travel along. DRS and NDR need only their own
// credits. `flit_valid`/`flit_ready`: until it is taken the flit may still gain messages, so its
// content is not stable; `run` says that all-data flits must follow it with nothing between. Ak and
// the credit nibbles of the header are inputs; `header` marks a flit that carries them.

`default_nettype none
`include "nf_assert.svh"

module nf_link_tx_pack
  import nf_pkg::*, nf_link_pkg::*;
(
  input  wire logic                 clk,
  input  wire logic                 rst_n,

  input  wire logic                 enable,       // the link is up

  input  wire logic [2:0]           ndr_count,
  input  wire s2m_ndr_t             ndr0,
  input  wire s2m_ndr_t             ndr1,
  output logic [1:0]                ndr_pop,

  input  wire logic                 drs_valid,
  output logic                      drs_ready,
  input  wire s2m_drs_t             drs,

  input  wire logic [PEER_CREDIT_W-1:0] ndr_credits,  // credits of the host that are left
  input  wire logic [PEER_CREDIT_W-1:0] drs_credits,

  input  wire logic                 ak,
  input  wire logic [3:0]           req_crd,
  input  wire logic [3:0]           data_crd,

  output logic                      flit_valid,
  input  wire logic                 flit_ready,
  output logic [PAYLOAD_W-1:0]      flit,
  output logic                      header,
  output logic                      run
);
  logic [2:0]        owed_q, owed_d;
  logic [LINE_W-1:0] line_q;   // the owed chunks are the uppermost ones
  logic              adf, send_drs, ndr_go1, ndr_go2, fire;
  logic [1:0]        ndr_send;

  assign adf      = owed_q[2];
  assign send_drs = enable && !adf && drs_valid && (drs_credits != '0);
  assign ndr_go1  = enable && !adf && (ndr_count != 3'd0) && (ndr_credits != '0);
  assign ndr_go2  = ndr_go1 && !send_drs && (ndr_count >= 3'd2) &&
                    (ndr_credits[PEER_CREDIT_W-1:1] != '0);
  assign ndr_send = {ndr_go2, ndr_go1 && !ndr_go2};

  assign flit_valid = (owed_q != '0) || send_drs || ndr_go1;
  assign header     = !adf;
  assign fire       = flit_valid && flit_ready;
  assign owed_d     = send_drs ? owed_q + 3'd1 : 3'd0;  // R + 4 - 3
  assign run        = owed_d[2];
  assign ndr_pop    = fire ? ndr_send : 2'd0;
  assign drs_ready  = fire && send_drs;

  // ---- slot 0 ----------------------------------------------------------------------------------
  logic [29:0] n0, n1;
  logic [95:0] h3, h4;
  logic [2:0]  fmt0;
  logic [8:0]  fmt321;
  logic [31:0] hdr;

  assign n0 = ndr_bits(ndr_go1, ndr0.tag, ndr0.ldid, ndr0.devload);
  assign n1 = ndr_bits(ndr_go2, ndr1.tag, ndr1.ldid, ndr1.devload);

  assign h3 = {26'd0, n0, drs_bits(send_drs, drs.tag, drs.ldid, drs.devload, drs.poison)};
  assign h4 = {36'd0, n0[29:28], n1, n0[27:0]};

  assign fmt0 = send_drs ? S2M_H_DRS_NDR : S2M_H_2NDR;
  assign hdr  = {data_crd, req_crd, 4'd0, 3'd0, fmt321, fmt0, send_drs, 1'b0, ak, 2'b00};

  // ---- slots 1-3 -------------------------------------------------------------------------------
  // With R owed, slot s holds owed chunk 4-R+s-1, or else the new line's chunk s-R-1.
  logic [PAYLOAD_W-1:0] body;
  logic [LINE_W-1:0]    drs_data;

  assign drs_data = drs.data;

  for (genvar s = 1; s < 4; s++) begin : g_slot
    logic       old_here;
    logic [1:0] chunk;

    assign old_here  = (owed_q >= 3'(s));
    assign chunk = 2'(s - 1) - owed_q[1:0];

    assign fmt321[3*(s-1) +: 3] = (old_here || send_drs) ? S2M_G_DATA : S2M_G_2NDR;
    assign body[SLOT_W*s +: SLOT_W] = old_here ? line_q[SLOT_W*chunk +: SLOT_W] :
                                      send_drs ? drs_data[SLOT_W*chunk +: SLOT_W] : '0;
  end
  assign body[SLOT_W-1:0] = {send_drs ? h3 : h4, hdr};

  assign flit = adf ? line_q : body;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n)    owed_q <= '0;
    else if (fire) owed_q <= owed_d;
  end

  always_ff @(posedge clk) begin
    if (drs_ready) line_q <= drs.data;
  end

  `NF_ASSERT_NEVER(PackOwedRange_A, owed_q > 3'd4)
  `NF_ASSERT_NEVER(TwoNdrWithDrs_A, drs_ready && ndr_pop[1])
endmodule

`default_nettype wire
