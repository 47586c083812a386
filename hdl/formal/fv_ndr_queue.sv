// SPDX-License-Identifier: Apache-2.0
// nf_link_ndr_queue: NDRs come out in order, each once, unchanged, one or two in a clock. One of
// them, which `mark` chooses, is followed from its push to its pop.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_ndr_queue
  import nf_pkg::*;
(
  input wire logic       clk,
  input wire logic       in_valid,
  input wire s2m_ndr_t   in_data,
  input wire logic [1:0] pop,
  input wire logic       mark
);
  localparam int W = $bits(s2m_ndr_t);

  logic       in_ready, push;
  logic [2:0] count;
  s2m_ndr_t   head0, head1;

  `NF_FORMAL_RESET

  nf_link_ndr_queue dut (
    .clk, .rst_n, .in_valid, .in_ready, .in_data, .count, .head0, .head1, .pop
  );

  `NF_ASSUME(PopsWhatIsThere_M, {1'b0, pop} <= count && pop != 2'd3)

  // ---- reference: how many, and where the one that is followed stands --------------------------
  logic [2:0]   held_q, place_q;
  logic         followed_q, was_full_q;
  logic [W-1:0] word_q;

  assign push = in_valid && in_ready;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      held_q     <= '0;
      place_q    <= '0;
      followed_q <= 1'b0;
      was_full_q <= 1'b0;
      word_q     <= '0;
    end else begin
      held_q     <= held_q + 3'(push) - {1'b0, pop};
      was_full_q <= was_full_q || !in_ready;
      if (!followed_q) begin
        followed_q <= push && mark;
        place_q    <= held_q - {1'b0, pop};
        word_q     <= in_data;
      end else begin
        followed_q <= (place_q >= {1'b0, pop});
        place_q    <= place_q - {1'b0, pop};
      end
    end
  end

  `NF_ASSERT(Count_A, count == held_q && held_q <= 3'd4)
  `NF_ASSERT(TakesWhileRoom_A, in_ready == (held_q != 3'd4))
  `NF_ASSERT_NEVER(Lost_A, followed_q && place_q >= held_q)
  `NF_ASSERT_NEVER(Oldest_A, followed_q && place_q == 3'd0 && head0 != word_q)
  `NF_ASSERT_NEVER(Second_A, followed_q && place_q == 3'd1 && head1 != word_q)

  // What induction needs to know of the inside.
  `NF_ASSERT_NEVER(Kept_A, followed_q && W'(dut.mem_q >> (W * 32'(place_q))) != word_q)

  `NF_COVER(TwoLeaveOneComes_C, push && pop == 2'd2 && followed_q && place_q == 3'd2)
  `NF_COVER(EmptyAgain_C, was_full_q && held_q == '0)
endmodule

`default_nettype wire
