// SPDX-License-Identifier: Apache-2.0
// LINK_STATE, and LINK_ERR_INFO: the first link error since the capture was armed (`rearm`).
//
// An error in the clock of `rearm` is captured.

`default_nettype none

module nf_link_regs
  import nf_pkg::*;
  import nf_regs_pkg::*;
(
  input  wire logic         clk,       // clock, rising edge
  input  wire logic         rst_n,     // asynchronous reset, active low
  input  wire link_status_t status,    // state of the link, and the error of this cycle
  input  wire logic         rearm,     // arm the capture again
  output logic [31:0]       err_info,  // LINK_ERR_INFO as read
  output logic [31:0]       state      // LINK_STATE as read
);
  logic        link_err, link_err_clear, link_err_valid_q;
  link_error_e link_err_kind_q;

  assign link_err       = status.error_kind != LINK_ERR_NONE;
  assign link_err_clear = rearm;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      link_err_valid_q <= 1'b0;
      link_err_kind_q  <= LINK_ERR_NONE;
    end else if (link_err && (!link_err_valid_q || link_err_clear)) begin
      link_err_valid_q <= 1'b1;
      link_err_kind_q  <= status.error_kind;
    end else if (link_err_clear) begin
      link_err_valid_q <= 1'b0;
    end
  end

  assign err_info      = 32'(link_err_valid_q)    << LSB_LINK_ERR_INFO_VALID
                       | 32'(link_err_kind_q)     << LSB_LINK_ERR_INFO_KIND;
  assign state         = 32'(status.lrsm)    << LSB_LINK_STATE_LRSM
                       | 32'(status.rrsm)    << LSB_LINK_STATE_RRSM
                       | 32'(status.aborted) << LSB_LINK_STATE_ABORTED;
endmodule

`default_nettype wire
