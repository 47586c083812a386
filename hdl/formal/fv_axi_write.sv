// SPDX-License-Identifier: Apache-2.0
// nf_axi_write: bursts of the clients leave whole and in the order in which they began, each with
// one AW that has its client's ID, address and length, and with LAST on its final beat alone; each
// answer goes to the client whose ID it has. One AW and one beat, which `mark` chooses, are
// followed.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_axi_write
  import nf_pkg::*;
#(
  parameter int CLIENTS = 3,
  parameter int ADDR_W  = 12,
  parameter int MOST    = 3   // beats of a burst
) (
  input wire logic                       clk,
  input wire logic [CLIENTS-1:0]         c_valid,
  input wire logic [CLIENTS*LADDR_W-1:0] c_addr,
  input wire logic [CLIENTS*8-1:0]       c_len,
  input wire logic [CLIENTS*LINE_W-1:0]  c_data,
  input wire logic [CLIENTS*BE_W-1:0]    c_strb,
  input wire logic [CLIENTS-1:0]         c_poison,
  input wire logic [CLIENTS-1:0]         c_last,
  input wire logic [CLIENTS-1:0]         b_stall,
  input wire logic                       m_axi_awready,
  input wire logic                       m_axi_wready,
  input wire logic [2:0]                 m_axi_bid,
  input wire logic [1:0]                 m_axi_bresp,
  input wire logic                       m_axi_bvalid,
  input wire logic                       mark
);
  localparam int AW_W = 3 + ADDR_W + 8;
  localparam int W_W  = LINE_W + BE_W + 2;

  logic [CLIENTS-1:0] c_ready, b_valid, takes;
  logic               b_err, m_axi_awvalid, m_axi_wlast, m_axi_wvalid, m_axi_bready;
  logic [2:0]         m_axi_awid, m_axi_awsize;
  logic [ADDR_W-1:0]  m_axi_awaddr;
  logic [7:0]         m_axi_awlen;
  logic [1:0]         m_axi_awburst;
  logic [511:0]       m_axi_wdata;
  logic [63:0]        m_axi_wstrb;
  logic [0:0]         m_axi_wuser;

  `NF_FORMAL_RESET

  nf_axi_write #(.CLIENTS(CLIENTS), .ADDR_W(ADDR_W)) dut (.*);

  `NF_ASSUME(IdsThatThereAre_M, 32'(m_axi_bid) < CLIENTS)

  // ---- what is taken from the clients ----------------------------------------------------------
  logic            push, first;
  logic [2:0]      client;
  logic [AW_W-1:0] address;
  logic [W_W-1:0]  beat;
  logic            last;
  logic [7:0]      len;

  assign takes = c_valid & c_ready;
  assign push  = takes != '0;

  always_comb begin
    client  = '0;
    address = '0;
    beat    = '0;
    last    = 1'b0;
    len     = '0;
    for (int c = 0; c < CLIENTS; c++) begin
      if (takes[c]) begin
        client  = 3'(c);
        len     = c_len[8*c +: 8];
        address = {3'(c), c_addr[LADDR_W*c +: ADDR_W-6], 6'd0, c_len[8*c +: 8]};
        beat    = {c_data[LINE_W*c +: LINE_W], c_strb[BE_W*c +: BE_W], c_last[c], c_poison[c]};
        last    = c_last[c];
      end
    end
  end

  // ---- reference: the burst under way at the clients, and one AW and one beat that are followed -
  logic         open_q;
  logic [2:0]   owner_q;
  logic [7:0]   beats_q, len_q;
  logic [1:0]   aws_q, ws_q, aw_ahead_q, w_ahead_q;
  logic         aw_followed_q, w_followed_q, aw_pop, w_pop;
  logic [AW_W-1:0] aw_q;
  logic [W_W-1:0]  w_q;

  assign first  = push && !open_q;
  assign aw_pop = m_axi_awvalid && m_axi_awready;
  assign w_pop  = m_axi_wvalid && m_axi_wready;

  // A client says `last` with the beat that its length tells, and its length does not change.
  `NF_ASSUME(Lengths_M, !push || (32'(len) < MOST && (first || len == len_q) &&
                                  last == ((first ? 8'd0 : beats_q) == len)))

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      open_q        <= 1'b0;
      owner_q       <= '0;
      beats_q       <= '0;
      len_q         <= '0;
      aws_q         <= '0;
      ws_q          <= '0;
      aw_ahead_q    <= '0;
      w_ahead_q     <= '0;
      aw_followed_q <= 1'b0;
      w_followed_q  <= 1'b0;
      aw_q          <= '0;
      w_q           <= '0;
    end else begin
      if (push) begin
        open_q  <= !last;
        owner_q <= client;
        len_q   <= len;
        beats_q <= (first ? 8'd0 : beats_q) + 8'd1;
      end
      aws_q <= aws_q + 2'(first) - 2'(aw_pop);
      ws_q  <= ws_q + 2'(push) - 2'(w_pop);
      if (!aw_followed_q) begin
        aw_followed_q <= first && mark;
        aw_ahead_q    <= aws_q - 2'(aw_pop);
        aw_q          <= address;
      end else if (aw_pop) begin
        aw_followed_q <= (aw_ahead_q != '0);
        aw_ahead_q    <= aw_ahead_q - 1'b1;
      end
      if (!w_followed_q) begin
        w_followed_q <= push && mark;
        w_ahead_q    <= ws_q - 2'(w_pop);
        w_q          <= beat;
      end else if (w_pop) begin
        w_followed_q <= (w_ahead_q != '0);
        w_ahead_q    <= w_ahead_q - 1'b1;
      end
    end
  end

  `NF_ASSERT(TakesOne_A, $onehot0(takes))
  `NF_ASSERT_NEVER(Interleaved_A, push && open_q && client != owner_q)
  `NF_ASSERT(Offers_A, m_axi_awvalid == (aws_q != '0) && m_axi_wvalid == (ws_q != '0))
  `NF_ASSERT_NEVER(AwLost_A, aw_followed_q && aw_ahead_q >= aws_q)
  `NF_ASSERT_NEVER(WLost_A, w_followed_q && w_ahead_q >= ws_q)
  `NF_ASSERT_NEVER(AnotherAw_A, aw_followed_q && aw_ahead_q == '0 &&
                                {m_axi_awid, m_axi_awaddr, m_axi_awlen} != aw_q)
  `NF_ASSERT_NEVER(AnotherW_A, w_followed_q && w_ahead_q == '0 &&
                   {m_axi_wdata, m_axi_wstrb, m_axi_wlast, m_axi_wuser} != w_q)
  `NF_ASSERT(Form_A, m_axi_awsize == 3'd6 && m_axi_awburst == 2'b01)
  `NF_ASSERT_KEEPS(AwKept_A, m_axi_awvalid && !m_axi_awready,
                   {m_axi_awvalid, m_axi_awid, m_axi_awaddr, m_axi_awlen})
  `NF_ASSERT_KEEPS(WKept_A, m_axi_wvalid && !m_axi_wready,
                   {m_axi_wvalid, m_axi_wdata, m_axi_wstrb, m_axi_wlast, m_axi_wuser})
  `NF_ASSERT(Works_A, open_q || c_valid == '0 || aws_q == 2'd2 || ws_q == 2'd2 || push)

  // ---- answers ---------------------------------------------------------------------------------
  `NF_ASSERT(ToItsClient_A, b_valid == ((m_axi_bvalid && m_axi_bready) ? CLIENTS'(1) << m_axi_bid
                                                                       : '0))
  `NF_ASSERT(Stalls_A, m_axi_bready == !b_stall[m_axi_bid] && b_err == m_axi_bresp[1])

  // ---- what induction needs to know of the inside -----------------------------------------------
  logic aw_place, w_place;
  assign aw_place = dut.u_aw.rd_ptr_q[0] ^ aw_ahead_q[0];
  assign w_place  = dut.u_w.rd_ptr_q[0] ^ w_ahead_q[0];
  `NF_ASSERT(Inside_A, dut.u_aw.count_q == aws_q && aws_q <= 2'd2 && dut.u_w.count_q == ws_q &&
                       ws_q <= 2'd2 && dut.locked_q == open_q && 32'(dut.last_q) < CLIENTS &&
                       (!open_q || dut.last_q == owner_q) &&
                       dut.u_aw.wr_ptr_q[0] == (dut.u_aw.rd_ptr_q[0] ^ aws_q[0]) &&
                       dut.u_w.wr_ptr_q[0] == (dut.u_w.rd_ptr_q[0] ^ ws_q[0]))
  `NF_ASSERT_NEVER(AwInside_A, aw_followed_q && dut.u_aw.mem[aw_place] != aw_q)
  `NF_ASSERT_NEVER(WInside_A, w_followed_q && dut.u_w.mem[w_place] != w_q)

  `NF_COVER(LongBurst_C, push && last && 32'(beats_q) == MOST - 1 && !m_axi_awready)
  `NF_COVER(Turns_C, first && client != owner_q && owner_q != '0 && aw_followed_q)
endmodule

`default_nettype wire
