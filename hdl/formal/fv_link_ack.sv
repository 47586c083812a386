// SPDX-License-Identifier: Apache-2.0
// nf_link_ack: every good retryable flit is acknowledged once (up to the 255 that NumAck holds),
// and what waits is never kept for longer than FLUSH_RETIMER clocks without a forced LLCRD.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_link_ack
  import nf_link_pkg::*;
(
  input wire logic clk,
  input wire logic link_up,
  input wire logic good_retryable,
  input wire logic credits_pending,
  input wire logic header_sent,
  input wire logic llcrd_sent
);
  logic                 ack8, force_llcrd, up;
  logic [NUM_ACK_W-1:0] full_ack;

  `NF_FORMAL_RESET

  assign up = link_up && rst_n;  // which clears the timer: it has no reset

  nf_link_ack dut (
    .clk, .rst_n, .link_up(up), .good_retryable, .credits_pending, .header_sent, .llcrd_sent, .ack8,
    .full_ack, .force_llcrd
  );

  `NF_ASSUME(OneFlitLeaves_M, !(header_sent && llcrd_sent))
  `NF_ASSUME_KEEPS(StaysUp_M, up, up)

  // ---- reference (link spec §9) ----------------------------------------------------------------
  logic [31:0] owed_q, taken, owed, quiet_q;
  logic        waits, was_full_q;

  assign taken = llcrd_sent ? 32'(full_ack) : (header_sent && ack8) ? 32'd8 : 32'd0;
  assign owed  = owed_q + 32'(good_retryable) - taken;
  assign waits = up && (owed_q > 1 || credits_pending);

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      owed_q     <= '0;
      quiet_q    <= '0;
      was_full_q <= 1'b0;
    end else begin
      owed_q     <= (owed > 255) ? 255 : owed;
      quiet_q    <= (!waits || header_sent || llcrd_sent) ? 0 :
                    (quiet_q == FLUSH_RETIMER) ? quiet_q : quiet_q + 1;
      was_full_q <= was_full_q || owed > 255;
    end
  end

  `NF_ASSERT(NumAck_A, 32'(full_ack) == owed_q && owed_q <= 255)
  `NF_ASSERT(Ak_A, ack8 == (owed_q >= 8))
  `NF_ASSERT_NEVER(TakesMoreThanOwed_A, taken > owed_q)
  `NF_ASSERT_NEVER(NotForced_A, up && !force_llcrd &&
                   (owed_q >= ACK_FORCE_THRESHOLD || (waits && quiet_q == FLUSH_RETIMER)))
  `NF_ASSERT_NEVER(ForcedForNothing_A, force_llcrd && !waits)

  // What induction needs to know of the inside: the timer is as long as the silence at least.
  `NF_ASSERT(Timer_A, quiet_q <= FLUSH_RETIMER && 32'(dut.timer_q) <= FLUSH_RETIMER &&
                      32'(dut.timer_q) >= quiet_q)

  `NF_COVER(Flushed_C, force_llcrd && owed_q == 2 && !credits_pending)
  `NF_COVER(EightTaken_C, header_sent && ack8 && good_retryable)
endmodule

`default_nettype wire
