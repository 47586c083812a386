// SPDX-License-Identifier: Apache-2.0
// nf_link_credit_return: every credit is pending, granted or held by a message, whatever the host
// sends: so a queue of as many places never overflows, and none is granted twice or forgotten.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_credit_return
  import nf_link_pkg::*;
#(
  parameter int CREDITS = 5
) (
  input wire logic       clk,
  input wire logic [1:0] arrive,
  input wire logic       release_one,
  input wire logic       grant
);
  localparam int CNT_W = $clog2(CREDITS + 1);

  logic [1:0] accept;
  logic [2:0] code;
  logic       overrun, pending;

  `NF_FORMAL_RESET

  // ---- the queue that it feeds, and the host ---------------------------------------------------
  logic [31:0] held_q, host_q, granted;  // messages that are held, credits that the host has
  logic        overran_q;

  assign granted = (grant && code != 3'd0) ? 32'd1 << (32'(code) - 1) : 32'd0;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      held_q    <= '0;
      host_q    <= '0;
      overran_q <= 1'b0;
    end else begin
      held_q    <= held_q + 32'(accept) - 32'(release_one);
      host_q    <= host_q + granted - 32'(accept);
      overran_q <= overran_q || overrun;
    end
  end

  nf_link_credit_return #(.CREDITS(CREDITS)) dut (
    .clk, .rst_n, .arrive, .accept, .overrun, .release_one, .pending, .code, .grant,
    .held(CNT_W'(held_q))
  );

  `NF_ASSUME(TwoAtMost_M, arrive != 2'd3)
  `NF_ASSUME(ReleasesWhatIsHeld_M, !release_one || held_q != '0)

  `NF_ASSERT(QueueHasRoom_A, held_q <= CREDITS)
  `NF_ASSERT(HostHolds_A, host_q <= CREDITS && 32'(dut.granted_q) == host_q)
  `NF_ASSERT_NEVER(AcceptsWithoutCredit_A, 32'(accept) > host_q || accept > arrive)
  `NF_ASSERT_NEVER(RefusesWithCredit_A, overrun && 32'(arrive) <= host_q)
  `NF_ASSERT(Pending_A, pending == (host_q + held_q != CREDITS))

  `NF_COVER(AllGranted_C, host_q == CREDITS)
  `NF_COVER(AllHeldThenBack_C, overran_q && held_q == '0 && host_q == '0)
endmodule

`default_nettype wire
