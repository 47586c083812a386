// SPDX-License-Identifier: Apache-2.0
// White-box functional coverage of the registers: events and clears of the interrupt's sources.
//
// Bound into nf_regs under Verilator; conventions as in nf_engine_cover.sv.

`default_nettype none
`include "nf_cover.svh"

/* verilator coverage_off */

module nf_regs_cover (
  input wire logic       clk,
  input wire logic       rst_n,
  input wire logic [6:0] pending,
  input wire logic [6:0] enabled,
  input wire logic [6:0] raised,
  input wire logic [6:0] cleared
);
  // Events of each source, and what a write to IRQ_STATUS does to it and to the others.
  logic [6:0]      irq_on, clear_on;
  logic [6:0][5:0] irq_at;
  logic [6:0][4:0] clear_at;
  logic [6:0]      ends;
  assign ends = pending & cleared;
  for (genvar s = 0; s < 7; s++) begin : g_source
    logic [1:0] event_kind;
    assign event_kind = raised[s] && cleared[s] ? 2'd3 : cleared[s] ? 2'd2 : {1'b0, pending[s]};
    assign irq_on[s] = raised[s] || (cleared[s] && pending[s]);
    assign irq_at[s] = {3'(s), enabled[s], event_kind};

    logic [1:0] clear_kind;
    assign clear_kind = !pending[s] ? 2'd2 : !cleared[s] ? 2'd3 : 2'($countones(ends) != 1);
    assign clear_on[s] = cleared[s] || (pending[s] && ends != '0);
    assign clear_at[s] = {3'(s), clear_kind};
  end
  `NF_POINTS(irq, 6, 7)
  `NF_POINTS(clear, 5, 7)
endmodule

bind nf_regs nf_regs_cover u_cover (
  .clk, .rst_n,
  .pending (irq_status_q[6:0]),
  .enabled (irq_enable_q[6:0]),
  .raised  (irq_set[6:0]),
  .cleared (irq_clear[6:0])
);

/* verilator coverage_on */
`default_nettype wire
