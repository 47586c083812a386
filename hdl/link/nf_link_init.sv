// SPDX-License-Identifier: Apache-2.0
// Link initialisation (link spec §8).
//
// RETRY.Idle only, until a CRC-clean flit has come; then one INIT.Param, which is retryable and
// goes the way of every new flit (`param_valid` / `param_ready`); then RETRY.Idle until the peer's
// INIT.Param has come. `idle_request` is a level: send RETRY.Idle while there is nothing else.
// `link_up` stays high from then on. `silent`: nothing clean has come yet, so that only RETRY.Idle
// may leave.

`default_nettype none

module nf_link_init (
  input  wire logic  clk,
  input  wire logic  rst_n,

  input  wire logic  any_clean,
  input  wire logic  init_received,

  output logic       silent,
  output logic       idle_request,
  output logic       param_valid,
  input  wire logic  param_ready,
  output logic       link_up
);
  localparam logic [1:0] ST_SILENT = 2'd0;  // nothing clean received yet
  localparam logic [1:0] ST_PARAM  = 2'd1;  // INIT.Param is to be sent
  localparam logic [1:0] ST_WAIT   = 2'd2;  // sent; the peer's is still missing
  localparam logic [1:0] ST_UP     = 2'd3;

  logic [1:0] state_q, state_d;

  always_comb begin
    state_d = state_q;
    case (state_q)
      ST_SILENT: if (any_clean)     state_d = ST_PARAM;
      ST_PARAM:  if (param_ready)   state_d = ST_WAIT;
      ST_WAIT:   if (init_received) state_d = ST_UP;
      default:                      state_d = ST_UP;
    endcase
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) state_q <= ST_SILENT;
    else        state_q <= state_d;
  end

  assign silent       = (state_q == ST_SILENT);
  assign idle_request = silent || (state_q == ST_WAIT);
  assign param_valid  = (state_q == ST_PARAM);
  assign link_up      = (state_q == ST_UP);
endmodule

`default_nettype wire
