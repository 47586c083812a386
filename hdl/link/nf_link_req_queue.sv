// SPDX-License-Identifier: Apache-2.0
// Request queue: up to two requests in a clock, one out. Two banks, used in turn.
//
// Write side: `in_valid` is 00, 01 or 11; in0 stands before in1. No back-pressure: the credits
// guarantee room. Read side: valid/ready, first-word fall-through, `out` stable until taken.

`default_nettype none
`include "nf_assert.svh"

module nf_link_req_queue
  import nf_pkg::*;
#(
  parameter int DEPTH = 64
) (
  input  wire logic                  clk,    // clock, rising edge
  input  wire logic                  rst_n,  // asynchronous reset, active low

  input  wire logic [1:0]            in_valid,  // 00, 01 or 11
  input  wire m2s_req_t              in0,       // first message
  input  wire m2s_req_t              in1,       // second message

  output logic                       out_valid,  // output message valid
  input  wire logic                  out_ready,  // output message taken
  output m2s_req_t                   out,        // oldest message

  output logic [$clog2(DEPTH+1)-1:0] count  // messages held
);
  localparam int BANK  = (DEPTH + 1) / 2;
  localparam int PTR_W = (BANK > 1) ? $clog2(2 * BANK) : 2;
  localparam int CNT_W = $clog2(DEPTH + 1);
  localparam int REQ_W = $bits(m2s_req_t);
  localparam int SPAN  = 2 * BANK;

  if (DEPTH < 2) begin : g_bad_depth
    initial $fatal(1, "nf_link_req_queue: DEPTH must be at least 2");
  end

  logic [REQ_W-1:0] even_mem [BANK];
  logic [REQ_W-1:0] odd_mem  [BANK];

  logic [PTR_W-1:0] wr_q, rd_q;
  logic [CNT_W-1:0] count_q;
  logic [1:0]       pushed;
  logic             pop;

  // wr + n, modulo the span of both banks
  function automatic logic [PTR_W-1:0] advance(input logic [PTR_W-1:0] ptr, input logic [1:0] n);
    logic [PTR_W:0] sum;
    sum     = {1'b0, ptr} + (PTR_W+1)'(n);
    advance = PTR_W'((sum >= (PTR_W+1)'(SPAN)) ? sum - (PTR_W+1)'(SPAN) : sum);
  endfunction

  assign pushed    = {in_valid[1], in_valid[0] && !in_valid[1]};
  assign pop       = out_valid && out_ready;

  // The first request goes to the bank that the pointer names, the second to the other one.
  logic             even_we, odd_we;
  logic [PTR_W-2:0] row, even_addr, odd_addr;
  logic [REQ_W-1:0] even_data, odd_data;

  assign even_we   = wr_q[0] ? in_valid[1] : in_valid[0];
  assign odd_we    = wr_q[0] ? in_valid[0] : in_valid[1];
  assign row       = wr_q[PTR_W-1:1];
  assign odd_addr  = row;
  assign even_addr = !wr_q[0] ? row : (row == (PTR_W-1)'(BANK - 1)) ? '0 : row + 1'b1;
  assign even_data = wr_q[0] ? in1 : in0;
  assign odd_data  = wr_q[0] ? in0 : in1;

  always_ff @(posedge clk) begin
    if (even_we) even_mem[even_addr] <= even_data;
    if (odd_we)  odd_mem[odd_addr]   <= odd_data;
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      wr_q    <= '0;
      rd_q    <= '0;
      count_q <= '0;
    end else begin
      wr_q    <= advance(wr_q, pushed);
      rd_q    <= advance(rd_q, {1'b0, pop});
      count_q <= count_q + CNT_W'(pushed) - CNT_W'(pop);
    end
  end

  assign out_valid = (count_q != '0);
  assign out       = rd_q[0] ? odd_mem[rd_q[PTR_W-1:1]] : even_mem[rd_q[PTR_W-1:1]];
  assign count     = count_q;

  `NF_ASSERT_NEVER(ReqOverflow_A, ({30'd0, pushed} + 32'(count_q)) > DEPTH)
  `NF_ASSERT_NEVER(ReqOrder_A, in_valid == 2'b10)
endmodule

`default_nettype wire
