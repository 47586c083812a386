// SPDX-License-Identifier: Apache-2.0
// nf_link_req_queue: requests come out in order, each once, unchanged, though two may come in a
// clock. One of them, which `mark` chooses, is followed. The credits keep the queue from overflow:
// that is assumed here, and proved by fv_credit_return.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_req_queue
  import nf_pkg::*;
#(
  parameter int DEPTH = 3
) (
  input wire logic       clk,
  input wire logic [1:0] in_valid,
  input wire m2s_req_t   in0,
  input wire m2s_req_t   in1,
  input wire logic       out_ready,
  input wire logic [1:0] mark
);
  localparam int CNT_W = $clog2(DEPTH + 1);
  localparam int SPAN  = 2 * ((DEPTH + 1) / 2);
  localparam int REQ_W = $bits(m2s_req_t);
  localparam int ROW_W = ((DEPTH + 1) / 2 > 1) ? $clog2(SPAN) - 1 : 1;

  logic             out_valid, pop;
  m2s_req_t         out;
  logic [CNT_W-1:0] count;
  logic [1:0]       pushed;

  `NF_FORMAL_RESET

  nf_link_req_queue #(.DEPTH(DEPTH)) dut (
    .clk, .rst_n, .in_valid, .in0, .in1, .out_valid, .out_ready, .out, .count
  );

  assign pushed = 2'(in_valid[0]) + 2'(in_valid[1]);
  assign pop    = out_valid && out_ready;

  `NF_ASSUME(FirstBeforeSecond_M, in_valid != 2'b10)
  `NF_ASSUME(Credits_M, 32'(count) + 32'(pushed) <= DEPTH)

  // ---- reference -------------------------------------------------------------------------------
  logic [CNT_W-1:0] held_q, ahead_q;
  logic             followed_q, was_full_q, first, second;
  logic [REQ_W-1:0] word_q;

  assign first  = in_valid[0] && mark[0];
  assign second = in_valid[1] && mark[1];

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      held_q     <= '0;
      ahead_q    <= '0;
      followed_q <= 1'b0;
      was_full_q <= 1'b0;
      word_q     <= '0;
    end else begin
      held_q     <= held_q + CNT_W'(pushed) - CNT_W'(pop);
      was_full_q <= was_full_q || 32'(held_q) == DEPTH;
      if (!followed_q) begin
        followed_q <= first || second;
        ahead_q    <= held_q - CNT_W'(pop) + CNT_W'(!first);
        word_q     <= first ? in0 : in1;
      end else if (pop) begin
        followed_q <= (ahead_q != '0);
        ahead_q    <= ahead_q - 1'b1;
      end
    end
  end

  `NF_ASSERT(Count_A, count == held_q && out_valid == (held_q != '0))
  `NF_ASSERT_NEVER(Lost_A, followed_q && ahead_q >= held_q)
  `NF_ASSERT_NEVER(Order_A, followed_q && ahead_q == '0 && out != word_q)
  `NF_ASSERT_KEEPS(OutStable_A, out_valid && !out_ready, {out_valid, out})

  // ---- what induction needs to know of the inside -----------------------------------------------
  logic [31:0]      place, behind;
  logic [REQ_W-1:0] kept;
  assign place  = (32'(dut.rd_q) + 32'(ahead_q)) % SPAN;
  assign behind = (32'(dut.rd_q) + 32'(held_q)) % SPAN;
  assign kept   = place[0] ? dut.odd_mem[place[ROW_W:1]] : dut.even_mem[place[ROW_W:1]];

  `NF_ASSERT(Pointers_A, 32'(dut.rd_q) < SPAN && 32'(dut.wr_q) == behind && 32'(held_q) <= DEPTH)
  `NF_ASSERT_NEVER(Kept_A, followed_q && kept != word_q)

  `NF_COVER(TwoCome_C, in_valid == 2'b11 && second && !first && !followed_q && held_q != '0)
  `NF_COVER(EmptyAgain_C, was_full_q && held_q == '0)
endmodule

`default_nettype wire
