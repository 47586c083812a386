// SPDX-License-Identifier: Apache-2.0
//
// AXI4-Lite subordinate: turns the five channels into a register bus.
//
// AXI side: one outstanding write and one outstanding read, independent of each other. AW and W are
// accepted in any order. No READY depends on a VALID of the same clock, every output comes from a
// flop, and a response stays until it is taken.
//
// Register side, write: `wr_valid` with `wr_addr` (word aligned), `wr_data` and `wr_mask` (strobes,
// one bit each data bit) is held, unchanged, until `wr_done`; `wr_error`, sampled with `wr_done`,
// becomes SLVERR. The write takes effect in the clock of `wr_valid && wr_done`.
// Register side, read: `rd_data` and `rd_error` answer `rd_addr` (word aligned) within the clock.
// Reads have no side effects, so there is no strobe. With `rd_error`, `rd_data` is zero. While
// `rd_wait` nothing is read.

`default_nettype none
`include "nf_assert.svh"
`include "nf_axi_ports.svh"

module nf_axil_slave
  import nf_pkg::*;
#(
  parameter int ADDR_W = 12
) (
  input  wire logic         clk,    // clock, rising edge
  input  wire logic         rst_n,  // asynchronous reset, active low

  `NF_AXIL_PORTS(ADDR_W),

  output logic              wr_valid,  // write under way; held until `wr_done`
  output logic [ADDR_W-1:0] wr_addr,   // byte address, a multiple of 4
  output logic [31:0]       wr_data,   // data
  output logic [31:0]       wr_mask,   // byte strobes, one bit for each bit of data
  input  wire logic         wr_done,   // the write takes effect in this cycle
  input  wire logic         wr_error,  // the write is answered with SLVERR

  output logic [ADDR_W-1:0] rd_addr,   // byte address, a multiple of 4
  input  wire logic [31:0]  rd_data,   // register at `rd_addr`, in the same cycle
  input  wire logic         rd_error,  // the read is answered with SLVERR
  input  wire logic         rd_wait    // read nothing in this cycle
);
  logic              aw_full_q, w_full_q, b_full_q, ar_full_q, r_full_q;
  logic              b_error_q, r_error_q;
  logic [ADDR_W-3:0] aw_word_q, ar_word_q;
  logic [31:0]       w_data_q, r_data_q;
  logic [3:0]        w_strb_q;

  // Protection bits and the byte part of an address carry no meaning here.
  logic unused_bits;
  assign unused_bits = ^{s_axil_awprot, s_axil_arprot, s_axil_awaddr[1:0], s_axil_araddr[1:0]};

  // ---- write ----------------------------------------------------------------------------------
  assign s_axil_awready = !aw_full_q;
  assign s_axil_wready  = !w_full_q;
  assign s_axil_bvalid  = b_full_q;
  assign s_axil_bresp   = b_error_q ? AXI_RESP_SLVERR : AXI_RESP_OKAY;

  assign wr_valid = aw_full_q && w_full_q && !b_full_q;
  assign wr_addr  = {aw_word_q, 2'b00};
  assign wr_data  = w_data_q;
  assign wr_mask  = {{8{w_strb_q[3]}}, {8{w_strb_q[2]}}, {8{w_strb_q[1]}}, {8{w_strb_q[0]}}};

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      aw_full_q <= 1'b0;
      w_full_q  <= 1'b0;
      b_full_q  <= 1'b0;
    end else begin
      if (s_axil_awvalid)      aw_full_q <= 1'b1;  // one that is full stays so
      if (s_axil_wvalid)       w_full_q  <= 1'b1;
      if (wr_valid && wr_done) b_full_q  <= 1'b1;
      // Both buffers are full here, so nothing is accepted in this clock.
      if (b_full_q && s_axil_bready) begin
        aw_full_q <= 1'b0;
        w_full_q  <= 1'b0;
        b_full_q  <= 1'b0;
      end
    end
  end

  always_ff @(posedge clk) begin
    // While there is room; what is there when VALID comes stays.
    if (s_axil_awready) aw_word_q <= s_axil_awaddr[ADDR_W-1:2];
    if (s_axil_wready) begin
      w_data_q <= s_axil_wdata;
      w_strb_q <= s_axil_wstrb;
    end
    if (wr_valid) b_error_q <= wr_error;  // that of `wr_done`, the last one, stays
  end

  // ---- read -----------------------------------------------------------------------------------
  assign s_axil_arready = !ar_full_q;
  assign s_axil_rvalid  = r_full_q;
  assign s_axil_rdata   = r_data_q;
  assign s_axil_rresp   = r_error_q ? AXI_RESP_SLVERR : AXI_RESP_OKAY;

  assign rd_addr = {ar_word_q, 2'b00};

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      ar_full_q <= 1'b0;
      r_full_q  <= 1'b0;
    end else begin
      if (s_axil_arvalid) ar_full_q <= 1'b1;
      if (ar_full_q && !rd_wait) r_full_q <= 1'b1;
      if (r_full_q && s_axil_rready) begin
        ar_full_q <= 1'b0;
        r_full_q  <= 1'b0;
      end
    end
  end

  always_ff @(posedge clk) begin
    if (s_axil_arready) ar_word_q <= s_axil_araddr[ADDR_W-1:2];
    if (ar_full_q && !r_full_q && !rd_wait) begin
      r_error_q <= rd_error;
      r_data_q  <= rd_data;
    end
  end

  `NF_ASSERT_KEEPS(WriteResponseHeld_A, s_axil_bvalid && !s_axil_bready,
                   {s_axil_bvalid, s_axil_bresp})
  `NF_ASSERT_KEEPS(ReadResponseHeld_A, s_axil_rvalid && !s_axil_rready,
                   {s_axil_rvalid, s_axil_rresp, s_axil_rdata})
  `NF_ASSERT_KEEPS(WriteHeldUntilDone_A, wr_valid && !wr_done,
                   {wr_valid, wr_addr, wr_data, wr_mask})
  `NF_ASSERT_NEVER(ResponseWithoutRequest_A, b_full_q && !(aw_full_q && w_full_q))
endmodule

`default_nettype wire
