// SPDX-License-Identifier: Apache-2.0
// nf_fifo: words come out in order, each once, unchanged. One word, which `mark` chooses, is
// followed from its push to its pop; since any may be chosen, what holds of it holds of all.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_fifo #(
  parameter int WIDTH = 2,
  parameter int DEPTH = 3,
  parameter int BLOCK = 0
) (
  input wire logic             clk,
  input wire logic             in_valid,
  input wire logic [WIDTH-1:0] in_data,
  input wire logic             out_ready,
  input wire logic             mark
);
  localparam int CNT_W = $clog2(DEPTH + 1);
  localparam int PTR_W = (DEPTH > 1) ? $clog2(DEPTH) : 1;

  logic             in_ready, out_valid, push, pop;
  logic [WIDTH-1:0] out_data;
  logic [CNT_W-1:0] count;

  `NF_FORMAL_RESET

  nf_fifo #(.WIDTH(WIDTH), .DEPTH(DEPTH), .BLOCK(BLOCK)) dut (
    .clk, .rst_n, .in_valid, .in_ready, .in_data, .out_valid, .out_ready, .out_data, .count
  );

  assign push = in_valid && in_ready;
  assign pop  = out_valid && out_ready;

  // ---- reference: how many words, and where the one that is followed stands --------------------
  logic [CNT_W-1:0] held_q, ahead_q;  // `ahead_q` words leave before it
  logic             followed_q, was_full_q;
  logic [WIDTH-1:0] word_q;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      held_q     <= '0;
      ahead_q    <= '0;
      followed_q <= 1'b0;
      was_full_q <= 1'b0;
      word_q     <= '0;
    end else begin
      held_q     <= held_q + CNT_W'(push) - CNT_W'(pop);
      was_full_q <= was_full_q || !in_ready;
      if (!followed_q) begin
        followed_q <= push && mark;
        ahead_q    <= held_q - CNT_W'(pop);
        word_q     <= in_data;
      end else if (pop) begin
        followed_q <= (ahead_q != '0);
        ahead_q    <= ahead_q - 1'b1;
      end
    end
  end

  `NF_ASSERT(Count_A, count == held_q && 32'(held_q) <= DEPTH)
  `NF_ASSERT(TakesWhileRoom_A, in_ready == (32'(held_q) != DEPTH))
  `NF_ASSERT(OffersWhatIsThere_A, out_valid == (held_q != '0))
  `NF_ASSERT_NEVER(Lost_A, followed_q && ahead_q >= held_q)
  `NF_ASSERT_NEVER(Order_A, followed_q && ahead_q == '0 && out_data != word_q)
  `NF_ASSERT_KEEPS(OutStable_A, out_valid && !out_ready, {out_valid, out_data})

  // ---- what induction needs to know of the inside -----------------------------------------------
  logic [31:0]      rd_ptr, wr_ptr, place, behind;
  logic [WIDTH-1:0] kept;
  assign rd_ptr = dut.rd_ptr_q;  // not in a cast: Icarus takes a wrong width from there
  assign wr_ptr = dut.wr_ptr_q;
  assign place  = (rd_ptr + 32'(ahead_q)) % DEPTH;
  assign behind = (rd_ptr + 32'(held_q)) % DEPTH;
  assign kept   = dut.mem[place[PTR_W-1:0]];

  `NF_ASSERT(Pointers_A, rd_ptr < DEPTH && wr_ptr == behind)
  `NF_ASSERT_NEVER(Kept_A, followed_q && kept != word_q)
  `NF_ASSERT_NEVER(Front_A, held_q != '0 && out_data != dut.mem[rd_ptr[PTR_W-1:0]])

  `NF_COVER(Full_C, 32'(held_q) == DEPTH && push == 1'b0 && in_valid)
  `NF_COVER(EmptyAgain_C, was_full_q && held_q == '0)
  `NF_COVER(FollowedLast_C, followed_q && 32'(ahead_q) == DEPTH - 1)
endmodule

`default_nettype wire
