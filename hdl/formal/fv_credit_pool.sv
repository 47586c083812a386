// SPDX-License-Identifier: Apache-2.0
// nf_link_credit_pool: the credits that the host granted, against an unbounded count that saturates
// once: never below zero, never above what was granted.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_credit_pool
  import nf_link_pkg::*;
(
  input wire logic       clk,
  input wire logic       add,
  input wire logic [3:0] nibble,
  input wire logic [1:0] spend
);
  localparam int LIMIT = (1 << PEER_CREDIT_W) - 1;

  logic [PEER_CREDIT_W-1:0] count;

  `NF_FORMAL_RESET

  nf_link_credit_pool dut (.clk, .rst_n, .add, .nibble, .spend, .count);

  `NF_ASSUME(SpendsWhatIsThere_M, 32'(spend) <= 32'(count))

  // ---- reference: link spec §3: codes 0, 1, 2, .. 7 are 0, 1, 2, 4, .. 64 credits ---------------
  logic [31:0] granted, sum, count_q;

  always_comb begin
    granted = 32'd0;
    if (add && nibble[3] && nibble[2:0] != 3'd0) granted = 32'd1 << (32'(nibble[2:0]) - 1);
    sum = count_q + granted - 32'(spend);
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) count_q <= '0;
    else        count_q <= (sum > LIMIT) ? LIMIT : sum;
  end

  `NF_ASSERT(Count_A, 32'(count) == count_q && count_q <= LIMIT)

  `NF_COVER(Many_C, count > PEER_CREDIT_W'(190))
  `NF_COVER(AllSpent_C, spend == 2'd3 && count == PEER_CREDIT_W'(3) && !add)
endmodule

`default_nettype wire
