// SPDX-License-Identifier: Apache-2.0
// Small queue of DRS whose headers leave before their data: four messages.
//
// Write side: valid/ready. Read side: `waiting` messages have not sent their header; `meta0`,
// `meta1` and `meta2` are the headers of the three oldest of them. `owed` is the number of 16-byte
// chunks of headers that have left, `window` the next four chunks in the order in which they travel
// (those of a header that leaves in this clock follow the owed ones). `take_headers` (0..3)
// and `take_chunks` (0..4) act at the clock edge; more than 12 chunks must never be owed.

`default_nettype none
`include "nf_assert.svh"

module nf_link_drs_queue
  import nf_pkg::*, nf_link_pkg::*;
(
  input  wire logic         clk,    // clock, rising edge
  input  wire logic         rst_n,  // asynchronous reset, active low

  input  wire logic         in_valid,  // input message valid
  output logic              in_ready,  // input message taken
  input  wire s2m_drs_t     in_data,   // message to queue

  output logic              empty,    // no chunk of any message is left
  output logic [2:0]        waiting,       // messages whose header has not left
  output drs_header_t       meta0,         // header of the oldest of them
  output drs_header_t       meta1,         // header of the second
  output drs_header_t       meta2,         // header of the third
  input  wire logic [1:0]   take_headers,  // headers that leave

  output logic [3:0]        owed,        // chunks of 16 bytes whose header has left
  output logic [LINE_W-1:0] window,      // next four chunks
  input  wire logic [2:0]   take_chunks  // chunks that leave
);
  localparam int META_W = $bits(drs_header_t);

  logic [META_W-1:0] meta_mem [4];
  logic [LINE_W-1:0] line_mem [4];

  logic [1:0]        wr_q, rd_q, hdr_q, chunk_q;   // rd: line whose chunks leave, from chunk_q on
  logic [2:0]        count_q, waiting_q, chunk_sum;
  logic [1:0]        rd1, hdr1, hdr2;              // the places after them
  logic              push, pop;
  logic [LINE_W-1:0] line0;
  logic [383:0]      line1;  // its last chunk never comes first
  s2m_drs_t          message;

  assign message  = in_data;
  assign in_ready = (count_q != 3'd4);
  assign push     = in_valid && in_ready;

  // A flit moves at most four chunks, so that at most one line comes to its end.
  assign chunk_sum = {1'b0, chunk_q} + take_chunks;
  assign pop       = chunk_sum[2];

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      wr_q      <= '0;
      rd_q      <= '0;
      hdr_q     <= '0;
      chunk_q   <= '0;
      count_q   <= '0;
      waiting_q <= '0;
    end else begin
      wr_q      <= wr_q + {1'b0, push};
      rd_q      <= rd_q + {1'b0, pop};
      hdr_q     <= hdr_q + take_headers;
      chunk_q   <= chunk_sum[1:0];
      count_q   <= count_q + {2'b00, push} - {2'b00, pop};
      waiting_q <= waiting_q + {2'b00, push} - {1'b0, take_headers};
    end
  end

  always_ff @(posedge clk) begin
    if (push) begin
      meta_mem[wr_q] <= drs_header_of(message);
      line_mem[wr_q] <= message.data;
    end
  end

  assign rd1  = rd_q + 2'd1;
  assign hdr1 = hdr_q + 2'd1;
  assign hdr2 = hdr_q + 2'd2;

  assign empty   = (count_q == 3'd0);
  assign waiting = waiting_q;
  assign meta0   = meta_mem[hdr_q];
  assign meta1   = meta_mem[hdr1];
  assign meta2   = meta_mem[hdr2];

  assign owed = {2'(count_q - waiting_q), 2'b00} - {2'b00, chunk_q};

  assign line0  = line_mem[rd_q];
  assign line1  = 384'(line_mem[rd1]);
  assign window = (chunk_q == 2'd0) ? line0 :
                  (chunk_q == 2'd1) ? {line1[127:0], line0[511:128]} :
                  (chunk_q == 2'd2) ? {line1[255:0], line0[511:256]} :
                                      {line1, line0[511:384]};

  `NF_ASSERT_NEVER(HeaderUnderflow_A, {1'b0, take_headers} > waiting_q)
  `NF_ASSERT_NEVER(ChunkUnderflow_A, 32'(take_chunks) > (32'(owed) + 32'd4 * 32'(take_headers)))
  `NF_ASSERT_NEVER(DrsCount_A, (count_q > 3'd4) || (waiting_q > count_q))
endmodule

`default_nettype wire
