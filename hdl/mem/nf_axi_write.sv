// SPDX-License-Identifier: Apache-2.0
// Write side of the AXI4 manager: CLIENTS write clients share AW, W and B.
//
// A client offers beats with valid/ready: address and length with every beat of a burst, `last` on
// its final one. A burst is never interrupted; between bursts the clients take turns. A client's
// number is its AXI ID, so its answers come back in its own order: `b_valid` pulses for it (a
// client must always be able to take its answer, or hold `b_stall`).

`default_nettype none
`include "nf_assert.svh"
`include "nf_axi_ports.svh"

module nf_axi_write
  import nf_pkg::*;
#(
  parameter int CLIENTS = 4,
  parameter int ADDR_W  = 26
) (
  input  wire logic                       clk,    // clock, rising edge
  input  wire logic                       rst_n,  // asynchronous reset, active low

  input  wire logic [CLIENTS-1:0]         c_valid,   // beat of each client
  output logic [CLIENTS-1:0]              c_ready,   // beat taken; one-hot
  input  wire logic [CLIENTS*LADDR_W-1:0] c_addr,    // line address of each client's burst
  input  wire logic [CLIENTS*8-1:0]       c_len,     // AXI length of each client's burst
  input  wire logic [CLIENTS*LINE_W-1:0]  c_data,    // data of each client's beat
  input  wire logic [CLIENTS*BE_W-1:0]    c_strb,    // byte strobes of each client's beat
  input  wire logic [CLIENTS-1:0]         c_poison,  // the beat is poisoned
  input  wire logic [CLIENTS-1:0]         c_last,    // last beat of the burst
  output logic [CLIENTS-1:0]              b_valid,   // answer for the client; one-hot
  output logic                            b_err,  // memory refused the write, valid with `b_valid`
  input  wire logic [CLIENTS-1:0]         b_stall,   // clients that cannot take an answer now

  `NF_AXI_WRITE_PORTS(ADDR_W)
);
  localparam int AW_W = 3 + ADDR_W + 8;
  localparam int CLIENT_W = (CLIENTS > 1) ? $clog2(CLIENTS) : 1;
  localparam int W_W  = LINE_W + BE_W + 2;

  logic [2:0]         last_q, turn, grant;
  logic               locked_q, first, aw_ready, w_ready, any, take;
  logic [LADDR_W-1:0] addr;
  logic [7:0]         len;
  logic [LINE_W-1:0]  data;
  logic [BE_W-1:0]    strb;
  logic               poison, last;

  nf_round_robin #(.CLIENTS(CLIENTS)) u_turn (
    .request(c_valid), .last(last_q),
    .turn
  );

  assign grant = locked_q ? last_q : turn;  // a burst goes on with the client that began it
  assign any   = c_valid[CLIENT_W'(grant)];
  assign first = !locked_q;
  assign take  = any && w_ready && (!first || aw_ready);

  assign addr   = c_addr[32'(grant)*LADDR_W +: LADDR_W];
  assign len    = c_len[32'(grant)*8 +: 8];
  assign data   = c_data[32'(grant)*LINE_W +: LINE_W];
  assign strb   = c_strb[32'(grant)*BE_W +: BE_W];
  assign poison = c_poison[CLIENT_W'(grant)];
  assign last   = c_last[CLIENT_W'(grant)];

  for (genvar c = 0; c < CLIENTS; c++) begin : g_client
    assign c_ready[c] = take && (grant == 3'(c));
    assign b_valid[c] = m_axi_bvalid && m_axi_bready && (m_axi_bid == 3'(c));
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      last_q   <= '0;
      locked_q <= 1'b0;
    end else if (take) begin
      locked_q <= !last;
      last_q   <= grant;
    end
  end

  nf_fifo #(.WIDTH(AW_W), .DEPTH(2)) u_aw (
    .clk, .rst_n,
    .in_valid  (take && first),
    .in_ready  (aw_ready),
    .in_data   ({grant, addr[ADDR_W-7:0], 6'd0, len}),
    .out_valid (m_axi_awvalid),
    .out_ready (m_axi_awready),
    .out_data  ({m_axi_awid, m_axi_awaddr, m_axi_awlen}),
    /* verilator lint_off PINCONNECTEMPTY */
    .count     ()
    /* verilator lint_on PINCONNECTEMPTY */
  );
  nf_fifo #(.WIDTH(W_W), .DEPTH(2)) u_w (
    .clk, .rst_n,
    .in_valid  (take),
    .in_ready  (w_ready),
    .in_data   ({data, strb, last, poison}),
    .out_valid (m_axi_wvalid),
    .out_ready (m_axi_wready),
    .out_data  ({m_axi_wdata, m_axi_wstrb, m_axi_wlast, m_axi_wuser}),
    /* verilator lint_off PINCONNECTEMPTY */
    .count     ()
    /* verilator lint_on PINCONNECTEMPTY */
  );

  assign m_axi_awsize  = 3'd6;   // 64 bytes a beat
  assign m_axi_awburst = AXI_BURST_INCR;
  assign m_axi_bready  = !b_stall[CLIENT_W'(m_axi_bid)];
  assign b_err         = m_axi_bresp[1];

  `NF_ASSERT_KEEPS(AwStable_A, m_axi_awvalid && !m_axi_awready, {m_axi_awvalid, m_axi_awaddr})
  `NF_ASSERT_KEEPS(WStable_A, m_axi_wvalid && !m_axi_wready, {m_axi_wvalid, m_axi_wdata})
  `NF_ASSERT_KEEPS(BurstKept_A, locked_q, last_q)
endmodule

`default_nettype wire
