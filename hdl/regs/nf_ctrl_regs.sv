// SPDX-License-Identifier: Apache-2.0
// CTRL_WINDOW_LO, CTRL_WINDOW_HI and CTRL_LD_MASK: where the control window is, who may write.
//
// `wr_en` writes one of them (other addresses are ignored). A write of CTRL_WINDOW_LO raises `move`
// with `place`, the line address asked for, until `move_done`; what it reads, `window_lo`, are
// address bits in force and the code of the last move.

`default_nettype none

module nf_ctrl_regs
  import nf_pkg::*;
  import nf_regs_pkg::*;
(
  input  wire logic          clk,    // clock, rising edge
  input  wire logic          rst_n,  // asynchronous reset, active low

  input  wire logic          wr_en,    // write one register
  input  wire logic [11:0]   wr_addr,  // its byte address
  input  wire logic [31:0]   wr_data,  // data
  input  wire logic [31:0]   wr_mask,  // bits that are written

  output logic               move,       // move of the control window asked for
  output logic [LADDR_W-1:0] place,      // line address asked for
  input  wire logic          move_done,  // the move has ended
  input  wire commit_code_e  code,       // its result

  output logic [31:0]        window_lo,  // CTRL_WINDOW_LO as read
  output logic [31:0]        window_hi,  // CTRL_WINDOW_HI as read
  output logic [31:0]        ld_mask     // CTRL_LD_MASK as read
);
  logic [W_CTRL_WINDOW_LO_ADDR-1:0] low_q;
  logic [31:0]                      window_hi_q, ld_mask_q;
  commit_code_e                     code_q;

  assign move  = wr_en && (wr_addr == ADDR_CTRL_WINDOW_LO) && (wr_mask != '0);
  assign place = {window_hi_q[W_CTRL_WINDOW_HI_ADDR-1:0],
                  W_CTRL_WINDOW_LO_ADDR'(write_bits(window_lo, wr_data, wr_mask, '1)
                                         >> LSB_CTRL_WINDOW_LO_ADDR)};

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      low_q       <= '0;
      code_q      <= COMMIT_OK;
      window_hi_q <= RESET_CTRL_WINDOW_HI;
      ld_mask_q   <= RESET_CTRL_LD_MASK;
    end else if (move) begin
      if (move_done) code_q <= code;
      if (move_done && code == COMMIT_OK) low_q <= place[W_CTRL_WINDOW_LO_ADDR-1:0];
    end else if (wr_en) begin
      case (wr_addr)
        ADDR_CTRL_WINDOW_HI:
          window_hi_q <= write_bits(window_hi_q, wr_data, wr_mask, WRITABLE_CTRL_WINDOW_HI);
        ADDR_CTRL_LD_MASK:
          ld_mask_q   <= write_bits(ld_mask_q, wr_data, wr_mask, WRITABLE_CTRL_LD_MASK);
        default: ;
      endcase
    end
  end

  assign window_lo = 32'(low_q)  << LSB_CTRL_WINDOW_LO_ADDR
                   | 32'(code_q) << LSB_CTRL_WINDOW_LO_CODE;
  assign window_hi = window_hi_q;
  assign ld_mask   = ld_mask_q;
endmodule

`default_nettype wire
