// SPDX-License-Identifier: Apache-2.0
// Acknowledgements owed to the peer, and when an LLCRD flit must carry them (link spec §9).
//
// NumAck counts good retryable flits; a new protocol flit with Ak takes 8 (a replayed one none), an
// LLCRD takes all (Full_Ack). `force_llcrd` asks for an LLCRD: enough acks, or something has waited
// FLUSH_RETIMER clocks, or the first credits after initialisation. It is a level and falls when the
// reason is gone, since a protocol flit carries the same things.

`default_nettype none
`include "nf_assert.svh"

module nf_link_ack
  import nf_link_pkg::*;
(
  input  wire logic            clk,    // clock, rising edge
  input  wire logic            rst_n,  // asynchronous reset, active low

  input  wire logic            link_up,          // initialisation is complete
  input  wire logic            good_retryable,   // one more flit to acknowledge
  input  wire logic            credits_pending,  // credits wait to be granted

  input  wire logic            header_sent,  // a new protocol flit (with header) left
  input  wire logic            llcrd_sent,   // a new LLCRD left

  output logic                 ack8,  // the next header sets Ak
  output logic [NUM_ACK_W-1:0] full_ack,    // acknowledgements that an LLCRD would carry
  output logic                 force_llcrd  // an LLCRD is due
);
  localparam int TIMER_W = $clog2(FLUSH_RETIMER + 1);

  logic [NUM_ACK_W-1:0] num_ack_q, taken;
  logic [NUM_ACK_W:0]   num_ack_d;
  logic [TIMER_W-1:0]   timer_q;
  logic                 expired, waiting, initial_q;

  assign ack8      = (num_ack_q >= NUM_ACK_W'(8));
  assign full_ack  = num_ack_q;
  assign taken     = llcrd_sent ? num_ack_q : (header_sent && ack8) ? NUM_ACK_W'(8) : '0;
  assign num_ack_d = {1'b0, num_ack_q} + (NUM_ACK_W+1)'(good_retryable) - {1'b0, taken};

  assign waiting = link_up && ((num_ack_q > NUM_ACK_W'(1)) || credits_pending);
  assign expired = (timer_q == TIMER_W'(FLUSH_RETIMER));

  assign force_llcrd = link_up && ((num_ack_q >= NUM_ACK_W'(ACK_FORCE_THRESHOLD)) ||
                                   (expired && waiting) || (initial_q && credits_pending));

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      num_ack_q <= '0;
      initial_q <= 1'b1;
    end else begin
      num_ack_q <= num_ack_d[NUM_ACK_W] ? '1 : num_ack_d[NUM_ACK_W-1:0];
      if (link_up && !credits_pending) initial_q <= 1'b0;
    end
  end

  always_ff @(posedge clk) begin
    if (!waiting || llcrd_sent || header_sent) timer_q <= '0;
    else if (!expired)                         timer_q <= timer_q + 1'b1;
  end

  `NF_ASSERT_NEVER(NumAckUnderflow_A, taken > num_ack_q)
endmodule

`default_nettype wire
