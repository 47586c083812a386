// SPDX-License-Identifier: Apache-2.0
// Credits of one received channel (link spec §3): how many wait to be granted, how many the host
// holds.
//
// Every credit is in one of three places: pending here, granted to the host, or held by a message
// in a queue. `code` is the largest grant that can be sent now; it is consumed with `grant`.
// `arrive` messages (0..2) came in this clock, of which `accept` are covered by credits the host
// held.

`default_nettype none
`include "nf_assert.svh"

module nf_link_credit_return
  import nf_link_pkg::*;
#(
  parameter int CREDITS = 64
) (
  input  wire logic                         clk,    // clock, rising edge
  input  wire logic                         rst_n,  // asynchronous reset, active low

  input  wire logic [1:0]                   arrive,       // messages that arrive, 0 to 2
  output logic [1:0]                        accept,       // those of them that a credit covers
  output logic                              overrun,      // a message without a credit
  input  wire logic                         release_one,  // a message left its queue

  output logic                              pending,  // credits wait to be granted
  // Largest grant that can be sent now, as a header field.
  output logic [2:0]                        code,
  input  wire logic                         grant,    // it is sent

  input  wire logic [$clog2(CREDITS+1)-1:0] held  // messages under way or queued; checked only
);
  localparam int CNT_W = $clog2(CREDITS + 1);

  if ((CREDITS < 2) || (CREDITS > 256)) begin : g_bad_credits
    initial $fatal(1, "nf_link_credit_return: CREDITS must be 2..256");
  end

  logic [CNT_W-1:0] pending_q, granted_q, granting;

  assign pending  = (pending_q != '0);
  assign code     = credit_code(9'(pending_q));
  assign granting = grant ? CNT_W'(credit_count(code)) : '0;
  assign accept   = (CNT_W'(arrive) <= granted_q) ? arrive : granted_q[1:0];
  assign overrun  = (accept != arrive);

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      pending_q <= CNT_W'(CREDITS);
      granted_q <= '0;
    end else begin
      pending_q <= pending_q - granting + CNT_W'(release_one);
      granted_q <= granted_q + granting - CNT_W'(accept);
    end
  end

  `NF_ASSERT_NEVER(PendingRange_A, pending_q > CNT_W'(CREDITS))
  `NF_ASSERT_NEVER(GrantedRange_A, granted_q > CNT_W'(CREDITS))
  // The largest code that what is pending covers: the next one stands for twice as many.
  `NF_ASSERT_NEVER(LargestGrant_A, 32'(credit_count(code)) > 32'(pending_q) ||
                   (pending && code != '1 && 2 * 32'(credit_count(code)) <= 32'(pending_q)))
  `NF_ASSERT_NEVER(CreditsConserved_A, (32'(pending_q) + 32'(granted_q) + 32'(held)) != CREDITS)
endmodule

`default_nettype wire
