// SPDX-License-Identifier: Apache-2.0
// Credits that the host granted for one sent channel (link spec §3). Saturating.
//
// `nibble` is the header's credit field, added when `add`; cache credits (bit 3 = 0) are ignored.
// The packer sees `count` and takes 0..3 credits with `spend`.

`default_nettype none
`include "nf_assert.svh"

module nf_link_credit_pool
  import nf_link_pkg::*;
(
  input  wire logic                clk,    // clock, rising edge
  input  wire logic                rst_n,  // asynchronous reset, active low

  input  wire logic                add,     // the header of this cycle grants credits
  input  wire logic [3:0]          nibble,  // its credit field
  input  wire logic [1:0]          spend,   // credits that the packer uses

  output logic [PEER_CREDIT_W-1:0] count  // credits left
);
  localparam int W = PEER_CREDIT_W;

  logic [W-1:0] count_q;
  logic [W:0]   sum;
  logic [6:0]   added;

  assign added = (add && nibble[3]) ? credit_count(nibble[2:0]) : 7'd0;
  assign sum   = {1'b0, count_q} + (W+1)'(added) - (W+1)'(spend);

  assign count = count_q;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) count_q <= '0;
    else        count_q <= sum[W] ? '1 : sum[W-1:0];
  end

  `NF_ASSERT_NEVER(CreditUnderflow_A, W'(spend) > count_q)
endmodule

`default_nettype wire
