// SPDX-License-Identifier: Apache-2.0
// nf_link_init: its steps come in their order, each once, and a link that is up stays so until
// reset. The proofs of the blocks that use `link_up` assume that.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_link_init
  import nf_link_pkg::*;
(
  input wire logic clk,
  input wire logic any_clean,
  input wire logic init_received,
  input wire logic param_ready
);
  logic silent, idle_request, param_valid, link_up;

  `NF_FORMAL_RESET

  nf_link_init dut (.*);

  // ---- reference: what has come and gone -------------------------------------------------------
  logic heard_q, sent_q, got_q;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      heard_q <= 1'b0;
      sent_q  <= 1'b0;
      got_q   <= 1'b0;
    end else begin
      heard_q <= heard_q || any_clean;
      sent_q  <= sent_q || (param_valid && param_ready);
      got_q   <= got_q || (sent_q && init_received);
    end
  end

  `NF_ASSERT(Silent_A, silent == !heard_q)
  `NF_ASSERT(ParamOnce_A, param_valid == (heard_q && !sent_q))
  `NF_ASSERT(Up_A, link_up == got_q)
  `NF_ASSERT(Idle_A, idle_request == (!heard_q || (sent_q && !got_q)))
  `NF_ASSERT_KEEPS(StaysUp_A, link_up, link_up)
  `NF_ASSERT_KEEPS(ParamStays_A, param_valid && !param_ready, param_valid)
  `NF_ASSERT_NEVER(Order_A, (sent_q && !heard_q) || (got_q && !sent_q))

  `NF_COVER(Up_C, link_up)
  `NF_COVER(WaitsForParam_C, sent_q && !got_q && param_valid == 1'b0 && idle_request)
endmodule

`default_nettype wire
