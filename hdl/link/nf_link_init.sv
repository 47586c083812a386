// SPDX-License-Identifier: Apache-2.0
// Link initialisation (link spec §8).
//
// RETRY.Idle only, until a CRC-clean flit has come; then one INIT.Param, which is retryable and
// goes the way of every new flit (`param_valid` / `param_ready`); then RETRY.Idle until the peer's
// INIT.Param has come. `idle_request` is a level: send RETRY.Idle while there is nothing else.
// `link_up` stays high from then on. `silent`: nothing clean has come yet, so that only RETRY.Idle
// may leave.

`default_nettype none
`include "nf_wave.svh"

module nf_link_init
  import nf_link_pkg::*;
(
  input  wire logic clk,    // clock, rising edge
  input  wire logic rst_n,  // asynchronous reset, active low

  input  wire logic any_clean,      // a CRC-clean flit has arrived
  input  wire logic init_received,  // the peer's INIT.Param has arrived

  output logic      silent,        // no clean flit yet: only RETRY.Idle may leave
  output logic      idle_request,  // send RETRY.Idle if there is nothing else
  output logic      param_valid,   // INIT.Param waits to be sent
  input  wire logic param_ready,   // it is sent
  output logic      link_up        // initialisation is complete
);
  init_state_e state_q, state_d;

  always_comb begin
    state_d = state_q;
    case (state_q)
      INIT_SILENT: if (any_clean)     state_d = INIT_PARAM;
      INIT_PARAM:  if (param_ready)   state_d = INIT_WAIT;
      INIT_WAIT:   if (init_received) state_d = INIT_UP;
      default:                      state_d = INIT_UP;
    endcase
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) state_q <= INIT_SILENT;
    else        state_q <= state_d;
  end

  assign silent       = (state_q == INIT_SILENT);
  assign idle_request = silent || (state_q == INIT_WAIT);
  assign param_valid  = (state_q == INIT_PARAM);
  assign link_up      = (state_q == INIT_UP);

  `NF_WAVE_NAME(state_name, state_q, init_state_name)
endmodule

`default_nettype wire
