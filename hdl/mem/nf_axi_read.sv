// SPDX-License-Identifier: Apache-2.0
// Read side of the AXI4 manager: CLIENTS read clients share AR and R.
//
// A client asks with valid/ready; the clients take turns. A client's number is its AXI ID, so its
// beats come back in its own order; `r_valid` is one-hot, the payload is shared. Every beat that
// memory refused (`error`) or marks as poisoned (`poisoned`) is reported once, here, for all
// clients.

`default_nettype none
`include "nf_assert.svh"
`include "nf_axi_ports.svh"

module nf_axi_read
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
  parameter int CLIENTS = 3,
  parameter int ADDR_W  = 26
) (
  input  wire logic                       clk,    // clock, rising edge
  input  wire logic                       rst_n,  // asynchronous reset, active low

  input  wire logic [CLIENTS-1:0]         c_valid,   // request of each client
  output logic [CLIENTS-1:0]              c_ready,   // request taken; one-hot
  input  wire logic [CLIENTS*LADDR_W-1:0] c_addr,    // line address of each client
  input  wire logic [CLIENTS*8-1:0]       c_len,     // AXI length of each client
  output logic [CLIENTS-1:0]              r_valid,   // beat for the client; one-hot
  input  wire logic [CLIENTS-1:0]         r_ready,   // the client takes its beat
  output read_beat_t                      r_beat,    // beat, shared by all clients
  output logic                            error,     // strobe: memory refused a beat
  output logic                            poisoned,  // strobe: memory marks a beat as poisoned

  `NF_AXI_READ_PORTS(ADDR_W)
);
  localparam int AR_W = 3 + ADDR_W + 8;
  localparam int CLIENT_W = (CLIENTS > 1) ? $clog2(CLIENTS) : 1;

  logic [2:0]         last_q, grant;
  logic               ar_ready, r_err;
  logic [LADDR_W-1:0] addr;
  logic [7:0]         len;

  nf_round_robin #(.CLIENTS(CLIENTS)) u_turn (
    .request(c_valid), .last(last_q),
    .turn(grant)
  );

  assign addr = c_addr[32'(grant)*LADDR_W +: LADDR_W];
  assign len  = c_len[32'(grant)*8 +: 8];

  for (genvar c = 0; c < CLIENTS; c++) begin : g_client
    assign c_ready[c] = ar_ready && (grant == 3'(c));
    assign r_valid[c] = m_axi_rvalid && (m_axi_rid == 3'(c));
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) last_q <= '0;
    else if (ar_ready) last_q <= grant;  // without a request it stays
  end

  nf_fifo #(.WIDTH(AR_W), .DEPTH(2)) u_ar (
    .clk, .rst_n,
    .in_valid  (c_valid[CLIENT_W'(grant)]),
    .in_ready  (ar_ready),
    .in_data   ({grant, addr[ADDR_W-7:0], 6'd0, len}),
    .out_valid (m_axi_arvalid),
    .out_ready (m_axi_arready),
    .out_data  ({m_axi_arid, m_axi_araddr, m_axi_arlen}),
    /* verilator lint_off PINCONNECTEMPTY */
    .count     ()
    /* verilator lint_on PINCONNECTEMPTY */
  );

  assign m_axi_arsize  = 3'd6;
  assign m_axi_arburst = AXI_BURST_INCR;
  assign m_axi_rready  = r_ready[CLIENT_W'(m_axi_rid)];
  assign r_err         = m_axi_rresp[1];
  assign r_beat        = make_read_beat(m_axi_rdata, r_err, m_axi_ruser[0], m_axi_rlast);
  assign error         = m_axi_rvalid && m_axi_rready && r_err;
  assign poisoned      = m_axi_rvalid && m_axi_rready && m_axi_ruser[0] && !r_err;

  `NF_ASSERT_KEEPS(ArStable_A, m_axi_arvalid && !m_axi_arready, {m_axi_arvalid, m_axi_araddr})
endmodule

`default_nettype wire
