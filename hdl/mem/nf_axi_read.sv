// SPDX-License-Identifier: Apache-2.0
// Read side of the AXI4 manager: CLIENTS read clients share AR and R.
//
// A client asks with valid/ready; the clients take turns. A client's number is its AXI ID, so its
// beats come back in its own order; `r_valid` is one-hot, the payload is shared. Every beat that
// memory refused (`error`) or marks as poisoned (`poisoned`) is told once, here, whoever it is for.

`default_nettype none
`include "nf_assert.svh"

module nf_axi_read
  import nf_pkg::*;
#(
  parameter int CLIENTS = 3,
  parameter int ADDR_W  = 26
) (
  input  wire logic                       clk,
  input  wire logic                       rst_n,

  input  wire logic [CLIENTS-1:0]         c_valid,
  output logic [CLIENTS-1:0]              c_ready,
  input  wire logic [CLIENTS*LADDR_W-1:0] c_addr,
  input  wire logic [CLIENTS*8-1:0]       c_len,
  output logic [CLIENTS-1:0]              r_valid,
  input  wire logic [CLIENTS-1:0]         r_ready,
  output logic [LINE_W-1:0]               r_data,
  output logic                            r_err,
  output logic                            r_poison,
  output logic                            r_last,
  output logic                            error,
  output logic                            poisoned,

  output logic [2:0]                      m_axi_arid,
  output logic [ADDR_W-1:0]               m_axi_araddr,
  output logic [7:0]                      m_axi_arlen,
  output logic [2:0]                      m_axi_arsize,
  output logic [1:0]                      m_axi_arburst,
  output logic                            m_axi_arvalid,
  input  wire logic                       m_axi_arready,
  input  wire logic [2:0]                 m_axi_rid,
  input  wire logic [LINE_W-1:0]          m_axi_rdata,
  input  wire logic [1:0]                 m_axi_rresp,
  input  wire logic                       m_axi_rlast,
  input  wire logic [0:0]                 m_axi_ruser,
  input  wire logic                       m_axi_rvalid,
  output logic                            m_axi_rready
);
  localparam int AR_W = 3 + ADDR_W + 8;
  localparam int CLIENT_W = (CLIENTS > 1) ? $clog2(CLIENTS) : 1;

  if (CLIENTS < 1 || CLIENTS > 8) begin : g_bad_clients
    initial $fatal(1, "nf_axi_read: CLIENTS must be 1..8");
  end

  logic [2:0]         last_q, grant;
  logic               ar_ready, take;
  logic [LADDR_W-1:0] addr;
  logic [7:0]         len;

  always_comb begin
    grant = last_q;
    for (int i = CLIENTS; i >= 1; i--) begin
      if (c_valid[(32'(last_q) + i) % CLIENTS]) grant = 3'((32'(last_q) + i) % CLIENTS);
    end
  end

  assign take = c_valid[CLIENT_W'(grant)] && ar_ready;
  assign addr = c_addr[32'(grant)*LADDR_W +: LADDR_W];
  assign len  = c_len[32'(grant)*8 +: 8];

  for (genvar c = 0; c < CLIENTS; c++) begin : g_client
    assign c_ready[c] = take && (grant == 3'(c));
    assign r_valid[c] = m_axi_rvalid && (m_axi_rid == 3'(c));
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) last_q <= '0;
    else if (take) last_q <= grant;
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
  assign m_axi_arburst = 2'b01;
  assign m_axi_rready  = r_ready[CLIENT_W'(m_axi_rid)];
  assign r_data        = m_axi_rdata;
  assign r_err         = m_axi_rresp[1];
  assign r_poison      = m_axi_ruser[0];
  assign r_last        = m_axi_rlast;
  assign error         = m_axi_rvalid && m_axi_rready && r_err;
  assign poisoned      = m_axi_rvalid && m_axi_rready && r_poison && !r_err;

  `NF_ASSERT(ArStable_A, (m_axi_arvalid && !m_axi_arready) |=> m_axi_arvalid && $stable(m_axi_araddr))
endmodule

`default_nettype wire
