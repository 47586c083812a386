// SPDX-License-Identifier: Apache-2.0
// Packer of S2M messages into flits (link spec §6). Combinational, apart from its queue of DRS.
//
// Each flit: first the data slots owed (slots 1..R, or an all-data flit when R > 3), then headers,
// and the new lines' first chunks in the slots left. Headers: one DRS with an NDR (H3) or two NDRs
// (H4) in slot 0, so lines leave at 4 per 5 flits and NDRs travel along. With `multi_header`: two
// DRS in slot 0 (H5, 8 lines per 9 flits) while no NDR waits; when one or two do, NDRs in slot 0
// and three DRS in the first slot that owes no data (G6). More NDRs than that go with H3 and H4.
//
// `drs_valid`/`drs_ready` takes a DRS into the queue. DRS and NDR need only their own credits, and
// a DRS header `room_drs` or `room_multi` in the retry buffer. `flit_valid`/`flit_ready`: until it
// is taken the flit may still gain messages, so its content is not stable; `run` says that all-data
// flits must follow it with nothing between. Ak and the credit nibbles of the header are inputs;
// `header` is low with an all-data flit, which carries none of them, and only then.

`default_nettype none
`include "nf_assert.svh"

module nf_link_tx_pack
  import nf_pkg::*, nf_link_pkg::*;
(
  input  wire logic                     clk,    // clock, rising edge
  input  wire logic                     rst_n,  // asynchronous reset, active low

  input  wire logic                     enable,  // the link is up
  input  wire logic                     multi_header,  // send H5 and G6 slots
  // The retry buffer has room for a DRS header and its data.
  input  wire logic                     room_drs,
  // It has room for a multi-header slot and its data.
  input  wire logic                     room_multi,

  input  wire logic [2:0]               ndr_count,  // NDRs that wait, up to 2 count
  input  wire s2m_ndr_t                 ndr0,       // oldest NDR
  input  wire s2m_ndr_t                 ndr1,       // second NDR
  output logic [1:0]                    ndr_pop,    // NDRs that leave

  input  wire logic                     drs_valid,  // answer with data valid
  output logic                          drs_ready,  // answer with data taken
  input  wire s2m_drs_t                 drs,        // DRS to queue
  output logic [1:0]                    drs_sent,  // DRS headers that leave in this clock
  output logic                          drs_empty, // every DRS taken has left, whole

  input  wire logic [PEER_CREDIT_W-1:0] ndr_credits,  // credits of the host that are left
  input  wire logic [PEER_CREDIT_W-1:0] drs_credits,  // the same for DRS

  input  wire logic                     ak,        // Ak of the header
  input  wire logic [3:0]               req_crd,   // credit field for Req
  input  wire logic [3:0]               data_crd,  // credit field for RwD

  output logic                          flit_valid,  // flit valid
  input  wire logic                     flit_ready,  // it is taken
  output logic [PAYLOAD_W-1:0]          flit,        // payload of the flit
  output logic                          header,      // it has a header
  output logic                          run          // all-data flits must follow it
);
  logic              adf, fire;
  logic [2:0]        waiting;
  drs_header_t       meta0, meta1, meta2;
  logic [3:0]        owed;
  logic [4:0]        owed_after;
  logic [LINE_W-1:0] window;
  logic [2:0]        take;

  nf_link_drs_queue u_drs_queue (
    .clk, .rst_n,
    .in_valid(drs_valid), .in_ready(drs_ready),
    .in_data(drs),
    .empty(drs_empty), .waiting,
    .meta0, .meta1,
    .meta2, .take_headers(drs_sent),
    .owed, .window,
    .take_chunks(fire ? take : 3'd0)
  );

  // ---- what leaves -----------------------------------------------------------------------------
  logic       ndr_go1, ndr_go2, one_drs, two_drs, three_drs, can_drs, can_multi;
  logic [1:0] drs_send, ndr_send;

  assign adf       = (owed > 4'd3);
  assign ndr_go1   = enable && !adf && (ndr_count != 3'd0) && (ndr_credits != '0);
  assign can_drs   = enable && !adf && room_drs && (waiting != 3'd0) && (drs_credits != '0);
  assign can_multi = can_drs && multi_header && room_multi;

  assign two_drs   = can_multi && !ndr_go1 && (waiting >= 3'd2) &&
                     (drs_credits >= PEER_CREDIT_W'(2));
  assign three_drs = can_multi && ndr_go1 && (ndr_count <= 3'd2) && (owed != 4'd3) &&
                     (waiting >= 3'd3) && (drs_credits >= PEER_CREDIT_W'(3));
  assign one_drs   = can_drs && !two_drs && !three_drs;
  assign drs_send  = three_drs ? 2'd3 : {two_drs, one_drs};

  assign ndr_go2  = ndr_go1 && !one_drs && (ndr_count >= 3'd2) &&
                    (ndr_credits[PEER_CREDIT_W-1:1] != '0);
  assign ndr_send = {ndr_go2, ndr_go1 && !ndr_go2};

  // Data slots: all after a header in slot 0, one less when slots 1-3 hold the header.
  assign take       = adf ? 3'd4 : three_drs ? 3'd2 : can_drs ? 3'd3 : {1'b0, owed[1:0]};
  assign owed_after = {1'b0, owed} + {1'b0, drs_send, 2'b00} - {2'b00, take};

  assign flit_valid = (owed != '0) || can_drs || ndr_go1;
  assign header     = !adf;
  assign fire       = flit_valid && flit_ready;
  assign run        = (owed_after > 5'd3);
  assign ndr_pop    = fire ? ndr_send : 2'd0;
  assign drs_sent   = fire ? drs_send : 2'd0;

  // ---- headers ---------------------------------------------------------------------------------
  logic [29:0] n0, n1;
  logic [39:0] d0, d1, d2;
  logic [95:0] slot0;
  logic [8:0]  fmt321;
  logic [31:0] hdr;

  s2m_header_format_e fmt0;

  assign n0 = ndr_bits(ndr_go1, ndr0);
  assign n1 = ndr_bits(ndr_go2, ndr1);
  assign d0 = drs_bits(can_drs, meta0);
  assign d1 = drs_bits(can_drs, meta1);
  assign d2 = drs_bits(can_drs, meta2);

  assign fmt0  = two_drs ? S2M_H_2DRS : one_drs ? S2M_H_DRS_NDR : S2M_H_2NDR;
  assign slot0 = two_drs ? {16'd0, d1, d0} :
                 one_drs ? {26'd0, n0, d0} : {36'd0, n0[29:28], n1, n0[27:0]};
  assign hdr   = {data_crd, req_crd, 4'd0, 3'd0, fmt321, fmt0, can_drs, 1'b0, ak, 2'b00};

  // ---- slots 1-3: data in the order of the window; G6 follows the owed slots --------------------
  logic [PAYLOAD_W-1:0] body;

  for (genvar s = 1; s < 4; s++) begin : g_slot
    logic       is_g6, is_data;
    logic [1:0] chunk;

    assign is_g6   = three_drs && (owed == 4'(s - 1));
    assign is_data = !is_g6 && (can_drs || (owed >= 4'(s)));
    assign chunk   = (three_drs && (owed + 4'd1 < 4'(s))) ? 2'(s - 2) : 2'(s - 1);

    assign fmt321[3*(s-1) +: 3] = is_g6 ? S2M_G_3DRS : is_data ? S2M_G_DATA : S2M_G_2NDR;
    assign body[SLOT_W*s +: SLOT_W] = is_g6   ? {8'd0, d2, d1, d0} :
                                      is_data ? window[SLOT_W*chunk +: SLOT_W] : '0;
  end
  assign body[SLOT_W-1:0] = {slot0, hdr};

  assign flit = adf ? window : body;

  `NF_ASSERT_NEVER(PackOwedRange_A, owed > 4'd12)
  `NF_ASSERT_NEVER(TwoNdrWithDrs_A, one_drs && ndr_pop[1])
endmodule

`default_nettype wire
