// SPDX-License-Identifier: Apache-2.0
// nf_axil_slave: each write and each read that is accepted is done once, with its own address and
// data, and answered once; answers stay until they are taken. Nothing is assumed of the manager.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_axil_slave
  import nf_pkg::*;
#(
  parameter int ADDR_W = 6
) (
  input wire logic              clk,
  input wire logic [ADDR_W-1:0] s_axil_awaddr,
  input wire logic              s_axil_awvalid,
  input wire logic [31:0]       s_axil_wdata,
  input wire logic [3:0]        s_axil_wstrb,
  input wire logic              s_axil_wvalid,
  input wire logic              s_axil_bready,
  input wire logic [ADDR_W-1:0] s_axil_araddr,
  input wire logic              s_axil_arvalid,
  input wire logic              s_axil_rready,
  input wire logic              wr_done,
  input wire logic              wr_error,
  input wire logic [31:0]       rd_data,
  input wire logic              rd_error,
  input wire logic              rd_wait
);
  logic [2:0]        s_axil_awprot, s_axil_arprot;
  logic              s_axil_awready, s_axil_wready, s_axil_bvalid, s_axil_arready, s_axil_rvalid;
  logic [1:0]        s_axil_bresp, s_axil_rresp;
  logic [31:0]       s_axil_rdata, wr_data, wr_mask;
  logic              wr_valid;
  logic [ADDR_W-1:0] wr_addr, rd_addr;

  `NF_FORMAL_RESET

  assign s_axil_awprot = '0;
  assign s_axil_arprot = '0;

  nf_axil_slave #(.ADDR_W(ADDR_W)) dut (.*);

  // ---- reference: the write and the read that are under way ------------------------------------
  logic              aw_q, w_q, done_q, error_q, ar_q, got_q, rd_error_q;
  logic [ADDR_W-3:0] wr_word_q, rd_word_q;
  logic [31:0]       data_q, rd_data_q;
  logic [3:0]        strb_q;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      aw_q       <= 1'b0;
      w_q        <= 1'b0;
      done_q     <= 1'b0;
      error_q    <= 1'b0;
      ar_q       <= 1'b0;
      got_q      <= 1'b0;
      rd_error_q <= 1'b0;
      wr_word_q  <= '0;
      rd_word_q  <= '0;
      data_q     <= '0;
      rd_data_q  <= '0;
      strb_q     <= '0;
    end else begin
      if (s_axil_awvalid && s_axil_awready) begin
        aw_q      <= 1'b1;
        wr_word_q <= s_axil_awaddr[ADDR_W-1:2];
      end
      if (s_axil_wvalid && s_axil_wready) begin
        w_q    <= 1'b1;
        data_q <= s_axil_wdata;
        strb_q <= s_axil_wstrb;
      end
      if (wr_valid && wr_done) begin
        done_q  <= 1'b1;
        error_q <= wr_error;
      end
      if (s_axil_bvalid && s_axil_bready) begin
        aw_q   <= 1'b0;
        w_q    <= 1'b0;
        done_q <= 1'b0;
      end
      if (s_axil_arvalid && s_axil_arready) begin
        ar_q      <= 1'b1;
        rd_word_q <= s_axil_araddr[ADDR_W-1:2];
      end
      if (ar_q && !got_q && !rd_wait) begin
        got_q      <= 1'b1;
        rd_data_q  <= rd_data;
        rd_error_q <= rd_error;
      end
      if (s_axil_rvalid && s_axil_rready) begin
        ar_q  <= 1'b0;
        got_q <= 1'b0;
      end
    end
  end

  `NF_ASSERT(Accepts_A, s_axil_awready == !aw_q && s_axil_wready == !w_q && s_axil_arready == !ar_q)
  `NF_ASSERT(WritesOnce_A, wr_valid == (aw_q && w_q && !done_q))
  `NF_ASSERT_NEVER(AnotherWrite_A, wr_valid && (wr_addr != {wr_word_q, 2'b00} || wr_data != data_q))
  `NF_ASSERT_NEVER(Strobes_A, wr_valid && wr_mask != {{8{strb_q[3]}}, {8{strb_q[2]}},
                                                      {8{strb_q[1]}}, {8{strb_q[0]}}})
  `NF_ASSERT(AnswersWrite_A, s_axil_bvalid == done_q)
  `NF_ASSERT_NEVER(WriteAnswer_A,
                   s_axil_bvalid && s_axil_bresp != (error_q ? AXI_RESP_SLVERR : AXI_RESP_OKAY))
  `NF_ASSERT_NEVER(AnotherRead_A, ar_q && !got_q && rd_addr != {rd_word_q, 2'b00})
  `NF_ASSERT(AnswersRead_A, s_axil_rvalid == got_q)
  `NF_ASSERT_NEVER(ReadAnswer_A, s_axil_rvalid && (s_axil_rdata != rd_data_q ||
                                 s_axil_rresp != (rd_error_q ? AXI_RESP_SLVERR : AXI_RESP_OKAY)))

  `NF_ASSERT_NEVER(Together_A, (done_q && !(aw_q && w_q)) || (got_q && !ar_q))

  // What induction needs to know of the inside: what waits for its other half.
  `NF_ASSERT_NEVER(AddressKept_A, aw_q && dut.aw_word_q != wr_word_q)
  `NF_ASSERT_NEVER(DataKept_A, w_q && {dut.w_data_q, dut.w_strb_q} != {data_q, strb_q})

  `NF_COVER(BothAnswer_C, s_axil_bvalid && s_axil_rvalid && error_q && rd_error_q)
  `NF_COVER(SecondWrite_C, wr_valid && wr_word_q != '0 && !s_axil_bvalid && ar_q)
endmodule

`default_nettype wire
