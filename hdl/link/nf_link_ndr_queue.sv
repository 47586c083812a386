// SPDX-License-Identifier: Apache-2.0
// Small queue of NDRs: one in, up to two out in a clock.
//
// Write side: valid/ready. Read side: `head0` and `head1` are the two oldest, `count` is
// their number, `pop` (0..2, never more than `count`) removes them at the clock edge.

`default_nettype none
`include "nf_assert.svh"

module nf_link_ndr_queue
  import nf_pkg::*;
(
  input  wire logic       clk,    // clock, rising edge
  input  wire logic       rst_n,  // asynchronous reset, active low

  input  wire logic       in_valid,  // input message valid
  output logic            in_ready,  // input message taken
  input  wire s2m_ndr_t   in_data,   // message to queue

  output logic [2:0]      count,  // messages held
  output s2m_ndr_t        head0,  // oldest message
  output s2m_ndr_t        head1,  // second message
  input  wire logic [1:0] pop     // messages that leave, 0 to 2
);
  localparam int W = $bits(s2m_ndr_t);

  // Entry 0 is the oldest. `moved` is the queue after the pop; a push is appended.
  logic [4*W-1:0] mem_q, moved, mem_d;
  logic [2:0]     count_q, after;
  logic           push;

  assign in_ready = (count_q != 3'd4);
  assign push     = in_valid && in_ready;
  assign after    = count_q - {1'b0, pop};
  assign moved    = pop[1] ? mem_q >> (2 * W) : pop[0] ? mem_q >> W : mem_q;

  for (genvar i = 0; i < 4; i++) begin : g_entry
    // Without a push it is no entry: `after` is the first free entry.
    assign mem_d[W*i +: W] = (after == 3'(i)) ? in_data : moved[W*i +: W];
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) count_q <= '0;
    else        count_q <= after + {2'b00, push};
  end

  always_ff @(posedge clk) mem_q <= mem_d;

  assign count = count_q;
  assign head0 = mem_q[W-1:0];
  assign head1 = mem_q[2*W-1:W];

  `NF_ASSERT_NEVER(NdrUnderflow_A, {1'b0, pop} > count_q)
endmodule

`default_nettype wire
