// SPDX-License-Identifier: Apache-2.0
// nf_link_tx_pack against its MyHDL twin, for any messages, credits and acknowledgements: in every
// clock they take the same messages, and offer the same flit. The content of a flit that nobody
// offers has no meaning. Of each 16 bytes of data the first bit and the last one may be other than
// zero: no logic looks at data, and whole chunks move. Assumed: a link that is up stays so until
// reset, which is proved of nf_link_init.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_twin_tx_pack
  import nf_pkg::*, nf_link_pkg::*;
(
  input wire logic                     clk,
  input wire logic                     enable,
  input wire logic                     multi_header,
  input wire logic                     room_drs,
  input wire logic                     room_multi,
  input wire logic [2:0]               ndr_count,
  input wire s2m_ndr_t                 ndr0,
  input wire s2m_ndr_t                 ndr1,
  input wire logic                     drs_valid,
  input wire drs_header_t              message,
  input wire logic [7:0]               data,
  input wire logic [PEER_CREDIT_W-1:0] ndr_credits,
  input wire logic [PEER_CREDIT_W-1:0] drs_credits,
  input wire logic                     ak,
  input wire logic [3:0]               req_crd,
  input wire logic [3:0]               data_crd,
  input wire logic                     flit_ready
);
  localparam int                HEADER_W = $bits(drs_header_t);
  localparam logic [SLOT_W-1:0] SHOWN    = {1'b1, {SLOT_W-2{1'b0}}, 1'b1};
  localparam logic [LINE_W-1:0] HIDDEN   = ~{4{SHOWN}};

  logic [1:0]           ndr_pop, drs_sent, twin_ndr_pop, twin_drs_sent;
  logic                 drs_ready, drs_empty, flit_valid, header, run;
  logic                 twin_drs_ready, twin_drs_empty, twin_flit_valid, twin_header, twin_run;
  logic [PAYLOAD_W-1:0] flit, twin_flit;

  s2m_drs_t             drs;
  logic [LINE_W-1:0]    line;

  `NF_FORMAL_RESET

  for (genvar c = 0; c < 4; c++) begin : g_line
    assign line[SLOT_W*c +: SLOT_W] = {data[2*c+1], {SLOT_W-2{1'b0}}, data[2*c]};
  end
  assign drs = make_drs(message.tag, message.ldid, message.devload, message.poison, line);

  nf_link_tx_pack dut (
    .clk, .rst_n, .enable, .multi_header, .room_drs, .room_multi, .ndr_count, .ndr0, .ndr1,
    .ndr_pop, .drs_valid, .drs_ready, .drs, .drs_sent, .drs_empty, .ndr_credits, .drs_credits, .ak,
    .req_crd, .data_crd, .flit_valid, .flit_ready, .flit, .header, .run
  );
  myhdl_nf_link_tx_pack u_twin (
    .clk, .rst_n, .enable, .multi_header, .room_drs, .room_multi, .ndr_count, .ndr0, .ndr1,
    .drs_valid, .drs, .ndr_credits, .drs_credits, .ak, .req_crd, .data_crd, .flit_ready,
    .ndr_pop(twin_ndr_pop), .drs_ready(twin_drs_ready), .drs_sent(twin_drs_sent),
    .drs_empty(twin_drs_empty), .flit_valid(twin_flit_valid), .flit(twin_flit),
    .header(twin_header), .run(twin_run)
  );

  // Rows that were never written hold nothing else, either.
  for (genvar i = 0; i < 4; i++) begin : g_narrow
    `NF_ASSUME(Narrow_M, (dut.u_drs_queue.line_mem[i] & HIDDEN) == '0)
  end

  logic up_q;
  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) up_q <= 1'b0;
    else        up_q <= up_q || enable;
  end
  `NF_ASSUME(StaysUp_M, enable || !up_q)

  `NF_ASSERT(SameOffer_A, flit_valid == twin_flit_valid)
  `NF_ASSERT(SameTaken_A, drs_ready == twin_drs_ready && drs_empty == twin_drs_empty)
  `NF_ASSERT(SameSent_A, ndr_pop == twin_ndr_pop && drs_sent == twin_drs_sent)
  `NF_ASSERT_NEVER(SameFlit_A, flit_valid && flit != twin_flit)
  `NF_ASSERT_NEVER(SameMarks_A, header != twin_header || (flit_valid && run != twin_run))

  // ---- what induction needs to know of the inside: both hold the same headers and chunks --------
  logic [4*HEADER_W-1:0] headers;
  logic [4*LINE_W-1:0]   chunks;
  logic [1:0]            at;

  always_comb begin
    at      = '0;
    headers = '0;
    chunks  = '0;
    for (int i = 0; i < 4; i++) begin
      at = dut.u_drs_queue.hdr_q + 2'(i);
      headers[HEADER_W*i +: HEADER_W] = dut.u_drs_queue.meta_mem[at];
      at = dut.u_drs_queue.rd_q + 2'(i);
      chunks[LINE_W*i +: LINE_W] = dut.u_drs_queue.line_mem[at];
    end
    chunks = chunks >> (SLOT_W * 32'(dut.u_drs_queue.chunk_q));
    headers = headers & ~({4*HEADER_W{1'b1}} << (HEADER_W * 32'(u_twin.waiting)));
    chunks  = chunks & ~({4*LINE_W{1'b1}} << (SLOT_W * 32'(u_twin.held)));
  end

  `NF_ASSERT(Counts_A, u_twin.waiting == dut.waiting && u_twin.owed == 5'(dut.owed) &&
                       32'(u_twin.held) == 32'(dut.owed) + 4 * 32'(dut.waiting))
  `NF_ASSERT(Pointers_A, dut.u_drs_queue.count_q <= 3'd4 && dut.owed <= 4'd12 &&
                         dut.waiting <= dut.u_drs_queue.count_q &&
                         4 * 32'(dut.u_drs_queue.count_q) ==
                           32'(u_twin.held) + 32'(dut.u_drs_queue.chunk_q) &&
                         (dut.u_drs_queue.count_q != '0 || dut.u_drs_queue.chunk_q == '0) &&
                         dut.u_drs_queue.wr_q == dut.u_drs_queue.hdr_q + 2'(dut.waiting) &&
                         dut.u_drs_queue.wr_q ==
                           dut.u_drs_queue.rd_q + 2'(dut.u_drs_queue.count_q))
  `NF_ASSERT(SameHeaders_A, u_twin.headers == headers)
  `NF_ASSERT(SameChunks_A, u_twin.chunks == chunks)
  `NF_ASSERT_NEVER(TwinNarrow_A, (u_twin.chunks & {4{HIDDEN}}) != '0)
  `NF_ASSERT(OwesWhenUp_A, up_q || dut.owed == '0)

  `NF_COVER(ThreeHeaders_C, flit_valid && drs_sent == 2'd3 && ndr_pop == 2'd2)
  `NF_COVER(TwoHeaders_C, flit_valid && drs_sent == 2'd2)
  `NF_COVER(AllData_C, flit_valid && !header && flit_ready && run)
  `NF_COVER(EmptyAgain_C, drs_empty && dut.u_drs_queue.rd_q == 2'd2)
endmodule

`default_nettype wire
