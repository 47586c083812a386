// SPDX-License-Identifier: Apache-2.0
// ERR_INFO, ERR_ADDR and ERR_TAG: the first refused access since the capture was armed (`rearm`).
//
// An access refused in the clock of `rearm` is captured.

`default_nettype none

module nf_error_regs
  import nf_pkg::*;
  import nf_regs_pkg::*;
(
  input  wire logic          clk,          // clock, rising edge
  input  wire logic          rst_n,        // asynchronous reset, active low
  input  wire access_error_t seen,         // refused access of this cycle
  input  wire logic          rearm,        // arm the capture again
  output logic [31:0]        err_info,     // ERR_INFO as read
  output logic [31:0]        err_addr_lo,  // ERR_ADDR_LO as read
  output logic [31:0]        err_addr_hi,  // ERR_ADDR_HI as read
  output logic [31:0]        err_tag       // ERR_TAG as read
);
  logic          err_valid_q;
  access_error_t err_q;  // member `valid` is not used: err_valid_q says whether it is armed
  logic          unused_err;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      err_valid_q <= 1'b0;
      err_q       <= '0;
    end else if (seen.valid && (!err_valid_q || rearm)) begin
      err_valid_q <= 1'b1;
      err_q       <= seen;
    end else if (rearm) begin
      err_valid_q <= 1'b0;
    end
  end

  assign unused_err = err_q.valid;
  assign {err_addr_hi, err_addr_lo} = 64'({err_q.addr, 6'b0});
  assign err_tag  = 32'(err_q.tag);
  assign err_info = 32'(err_valid_q)  << LSB_ERR_INFO_VALID
                  | 32'(err_q.cause)  << LSB_ERR_INFO_CAUSE
                  | 32'(err_q.write)  << LSB_ERR_INFO_WRITE
                  | 32'(err_q.opcode) << LSB_ERR_INFO_OPCODE
                  | 32'(err_q.ldid)   << LSB_ERR_INFO_LDID;
endmodule

`default_nettype wire
