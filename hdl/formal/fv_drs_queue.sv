// SPDX-License-Identifier: Apache-2.0
// nf_link_drs_queue: headers and 16-byte chunks leave in order, each once, unchanged. A message and
// one of its chunks, which `mark` and `mark_chunk` choose, are followed.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_drs_queue
  import nf_pkg::*, nf_link_pkg::*;
(
  input wire logic       clk,
  input wire logic       in_valid,
  input wire s2m_drs_t   in_data,
  input wire logic [1:0] take_headers,
  input wire logic [2:0] take_chunks,
  input wire logic       mark,
  input wire logic [1:0] mark_chunk
);
  localparam int META_W = $bits(drs_header_t);

  logic              in_ready, empty, push;
  logic [2:0]        waiting;
  drs_header_t       meta0, meta1, meta2;
  logic [3:0]        owed;
  logic [LINE_W-1:0] window;

  `NF_FORMAL_RESET

  nf_link_drs_queue dut (
    .clk, .rst_n, .in_valid, .in_ready, .in_data, .empty, .waiting, .meta0, .meta1, .meta2,
    .take_headers, .owed, .window, .take_chunks
  );

  assign push = in_valid && in_ready;

  `NF_ASSUME(HeadersThere_M, {1'b0, take_headers} <= waiting)
  `NF_ASSUME(ChunksThere_M,
             32'(take_chunks) <= 32'(owed) + 4 * 32'(take_headers) && take_chunks <= 3'd4)
  // The packer takes headers only while few chunks are owed (its PackOwedRange_A).
  `NF_ASSUME(OwedRange_M, 32'(owed) + 4 * 32'(take_headers) <= 12 + 32'(take_chunks))

  // ---- reference: chunks and headers that have not left ----------------------------------------
  logic [4:0]        chunks_q, ahead_q;     // `ahead_q` chunks leave before the followed one
  logic [2:0]        headers_q, behind_q;   // `behind_q` headers leave before its header
  logic              chunk_q, header_q;     // what is followed has not left
  logic              was_full_q;
  logic [127:0]      part, part_q;
  logic [META_W-1:0] meta_q;
  s2m_drs_t          message;

  assign message = in_data;
  assign part    = message.data[128*mark_chunk +: 128];

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      chunks_q   <= '0;
      headers_q  <= '0;
      chunk_q    <= 1'b0;
      header_q   <= 1'b0;
      was_full_q <= 1'b0;
      ahead_q    <= '0;
      behind_q   <= '0;
      part_q     <= '0;
      meta_q     <= '0;
    end else begin
      chunks_q   <= chunks_q + (push ? 5'd4 : 5'd0) - 5'(take_chunks);
      headers_q  <= headers_q + 3'(push) - 3'(take_headers);
      was_full_q <= was_full_q || !in_ready;
      if (!chunk_q && !header_q) begin
        chunk_q  <= push && mark;
        header_q <= push && mark;
        ahead_q  <= chunks_q - 5'(take_chunks) + 5'(mark_chunk);
        behind_q <= headers_q - 3'(take_headers);
        part_q   <= part;
        meta_q   <= drs_header_of(message);
      end else begin
        chunk_q  <= chunk_q && (ahead_q >= 5'(take_chunks));
        ahead_q  <= ahead_q - 5'(take_chunks);
        header_q <= header_q && (behind_q >= 3'(take_headers));
        behind_q <= behind_q - 3'(take_headers);
      end
    end
  end

  `NF_ASSERT(Counts_A, waiting == headers_q && empty == (chunks_q == '0) && chunks_q <= 5'd16)
  `NF_ASSERT(Owed_A, 5'(owed) + 5'd4 * 5'(headers_q) == chunks_q && owed <= 4'd12)
  `NF_ASSERT_NEVER(ChunkLost_A, chunk_q && ahead_q >= chunks_q)
  `NF_ASSERT_NEVER(HeaderLost_A, header_q && behind_q >= headers_q)
  `NF_ASSERT_NEVER(ChunkOrder_A, chunk_q && ahead_q < 5'd4 &&
                                 128'(window >> (128 * 32'(ahead_q[1:0]))) != part_q)
  `NF_ASSERT_NEVER(Header0_A, header_q && behind_q == 3'd0 && meta0 != meta_q)
  `NF_ASSERT_NEVER(Header1_A, header_q && behind_q == 3'd1 && meta1 != meta_q)
  `NF_ASSERT_NEVER(Header2_A, header_q && behind_q == 3'd2 && meta2 != meta_q)

  // ---- what induction needs to know of the inside -----------------------------------------------
  logic [1:0] header_place, line_place;
  logic [4:0] chunk_place;
  assign header_place = dut.hdr_q + 2'(behind_q);
  assign chunk_place  = 5'(dut.chunk_q) + ahead_q;
  assign line_place   = dut.rd_q + chunk_place[3:2];

  `NF_ASSERT(Pointers_A, dut.wr_q == dut.hdr_q + 2'(headers_q) && dut.count_q <= 3'd4 &&
                         dut.wr_q == dut.rd_q + 2'(dut.count_q) &&
                         5'd4 * 5'(dut.count_q) == chunks_q + 5'(dut.chunk_q) &&
                         (dut.count_q != '0 || dut.chunk_q == '0))
  `NF_ASSERT_NEVER(HeaderKept_A, header_q && dut.meta_mem[header_place] != meta_q)
  `NF_ASSERT_NEVER(ChunkKept_A, chunk_q &&
                   128'(dut.line_mem[line_place] >> (128 * 32'(chunk_place[1:0]))) != part_q)

  `NF_COVER(HeaderAhead_C, chunk_q && !header_q && ahead_q > 5'd6)
  `NF_COVER(EmptyAgain_C, was_full_q && empty)
endmodule

`default_nettype wire
