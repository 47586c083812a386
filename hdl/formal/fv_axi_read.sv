// SPDX-License-Identifier: Apache-2.0
// nf_axi_read: each request that is accepted leaves once on AR, in order, with its client's ID, its
// address and length; each beat goes to the client whose ID it has. One request, which `mark`
// chooses, is followed.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_axi_read
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
  parameter int CLIENTS = 3,
  parameter int ADDR_W  = 26
) (
  input wire logic                       clk,
  input wire logic [CLIENTS-1:0]         c_valid,
  input wire logic [CLIENTS*LADDR_W-1:0] c_addr,
  input wire logic [CLIENTS*8-1:0]       c_len,
  input wire logic [CLIENTS-1:0]         r_ready,
  input wire logic                       m_axi_arready,
  input wire logic [2:0]                 m_axi_rid,
  input wire logic [511:0]               m_axi_rdata,
  input wire logic [1:0]                 m_axi_rresp,
  input wire logic                       m_axi_rlast,
  input wire logic [0:0]                 m_axi_ruser,
  input wire logic                       m_axi_rvalid,
  input wire logic                       mark
);
  localparam int AR_W = 3 + ADDR_W + 8;

  logic [CLIENTS-1:0] c_ready, r_valid, takes;
  read_beat_t         r_beat;
  logic               error, poisoned, m_axi_arvalid, m_axi_rready;
  logic [2:0]         m_axi_arid, m_axi_arsize;
  logic [ADDR_W-1:0]  m_axi_araddr;
  logic [7:0]         m_axi_arlen;
  logic [1:0]         m_axi_arburst;

  `NF_FORMAL_RESET

  nf_axi_read #(.CLIENTS(CLIENTS), .ADDR_W(ADDR_W)) dut (.*);

  `NF_ASSUME(IdsThatThereAre_M, 32'(m_axi_rid) < CLIENTS)

  // ---- reference -------------------------------------------------------------------------------
  logic [1:0]      held_q, ahead_q;
  logic            followed_q, push, pop;
  logic [AR_W-1:0] word_q, taken;

  assign takes = c_valid & c_ready;
  assign push  = takes != '0;
  assign pop   = m_axi_arvalid && m_axi_arready;

  always_comb begin
    taken = '0;
    for (int c = 0; c < CLIENTS; c++) begin
      if (takes[c]) taken = {3'(c), c_addr[LADDR_W*c +: ADDR_W-6], 6'd0, c_len[8*c +: 8]};
    end
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      held_q     <= '0;
      ahead_q    <= '0;
      followed_q <= 1'b0;
      word_q     <= '0;
    end else begin
      held_q <= held_q + 2'(push) - 2'(pop);
      if (!followed_q) begin
        followed_q <= push && mark;
        ahead_q    <= held_q - 2'(pop);
        word_q     <= taken;
      end else if (pop) begin
        followed_q <= (ahead_q != '0);
        ahead_q    <= ahead_q - 1'b1;
      end
    end
  end

  `NF_ASSERT(TakesOne_A, $onehot0(takes))
  `NF_ASSERT(Offers_A, m_axi_arvalid == (held_q != '0))
  `NF_ASSERT_NEVER(Lost_A, followed_q && ahead_q >= held_q)
  `NF_ASSERT_NEVER(AnotherRequest_A, followed_q && ahead_q == '0 &&
                                     {m_axi_arid, m_axi_araddr, m_axi_arlen} != word_q)
  `NF_ASSERT(Form_A, m_axi_arsize == 3'd6 && m_axi_arburst == 2'b01)
  `NF_ASSERT_KEEPS(Stable_A, m_axi_arvalid && !m_axi_arready,
                   {m_axi_arvalid, m_axi_arid, m_axi_araddr, m_axi_arlen})
  `NF_ASSERT(Works_A, c_valid == '0 || held_q == 2'd2 || push)

  // ---- answers ---------------------------------------------------------------------------------
  `NF_ASSERT(ToItsClient_A, r_valid == (m_axi_rvalid ? CLIENTS'(1) << m_axi_rid : '0))
  `NF_ASSERT(TakenWithIt_A, m_axi_rready == r_ready[m_axi_rid])
  `NF_ASSERT(Beat_A, r_beat.data == m_axi_rdata && r_beat.err == m_axi_rresp[1] &&
                     r_beat.poison == m_axi_ruser[0] && r_beat.last == m_axi_rlast)
  `NF_ASSERT(ToldOnce_A, error == (m_axi_rvalid && m_axi_rready && m_axi_rresp[1]) &&
                         poisoned == (m_axi_rvalid && m_axi_rready && m_axi_ruser[0] &&
                                      !m_axi_rresp[1]))

  // ---- what induction needs to know of the inside -----------------------------------------------
  logic behind;
  assign behind = dut.u_ar.rd_ptr_q[0] ^ ahead_q[0];
  `NF_ASSERT(Inside_A, dut.u_ar.count_q == held_q && held_q <= 2'd2 && 32'(dut.last_q) < CLIENTS &&
                       dut.u_ar.wr_ptr_q[0] == (dut.u_ar.rd_ptr_q[0] ^ held_q[0]))
  `NF_ASSERT_NEVER(Kept_A, followed_q && dut.u_ar.mem[behind] != word_q)

  `NF_COVER(Waits_C, followed_q && ahead_q == 2'd1 && !m_axi_arready && m_axi_arid == 3'd2)
endmodule

`default_nettype wire
