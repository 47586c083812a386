// SPDX-License-Identifier: Apache-2.0
// Synchronous first-word-fall-through FIFO.
//
// Handshake: valid/ready on both sides; a word moves on a rising edge where both are high.
// `in_ready` does not depend on `in_valid` and `out_valid` does not depend on `out_ready`, so there
// is no combinational path through the FIFO. `out_data` is stable while `out_valid && !out_ready`.
// `count` is the number of words held. Any DEPTH >= 1 works, not only powers of two.
//
// With BLOCK = 1 the words are in block RAM, and each is read in the clock in which the word before
// it leaves. A word that arrives in an empty FIFO, or while the only other word leaves, is offered
// in the next clock: it cannot be read from the RAM so soon, and is also stored in a register. Both
// forms behave alike at the ports; block RAM makes deep and wide FIFOs smaller.

`default_nettype none
`include "nf_assert.svh"

module nf_fifo #(
  parameter int WIDTH = 8,
  parameter int DEPTH = 2,
  parameter int BLOCK = 0  // 1: in block RAM
) (
  input  wire logic                  clk,    // clock, rising edge
  input  wire logic                  rst_n,  // asynchronous reset, active low

  input  wire logic                  in_valid,  // input message valid
  output logic                       in_ready,  // input message taken
  input  wire logic [WIDTH-1:0]      in_data,   // input message

  output logic                       out_valid,  // output message valid
  input  wire logic                  out_ready,  // output message taken
  output logic [WIDTH-1:0]           out_data,   // output message, stable while it waits

  output logic [$clog2(DEPTH+1)-1:0] count  // words held
);
  localparam int PTR_W = (DEPTH > 1) ? $clog2(DEPTH) : 1;
  localparam int CNT_W = $clog2(DEPTH + 1);
  localparam int LAST  = DEPTH - 1;

  if (DEPTH < 1) begin : g_bad_depth
    initial $fatal(1, "nf_fifo: DEPTH must be at least 1");
  end
  if (BLOCK < 0 || BLOCK > 1) begin : g_bad_block
    initial $fatal(1, "nf_fifo: BLOCK must be 0 or 1");
  end

  (* no_rw_check *) logic [WIDTH-1:0] mem [DEPTH];  // see ClashUsed_A
  logic [PTR_W-1:0] wr_ptr_q, rd_ptr_q, second;
  logic [CNT_W-1:0] count_q;
  logic             push, pop;

  assign in_ready  = (count_q != CNT_W'(DEPTH));
  assign out_valid = (count_q != '0);
  assign count     = count_q;
  assign push      = in_valid && in_ready;
  assign pop       = out_valid && out_ready;

  assign second    = (rd_ptr_q == PTR_W'(LAST)) ? '0 : rd_ptr_q + 1'b1;

  always_ff @(posedge clk) begin
    if (push) mem[wr_ptr_q] <= in_data;
  end

  if (BLOCK != 0) begin : g_block
    logic [WIDTH-1:0] read_q, alone_q;
    logic             alone, is_alone_q;

    assign alone    = push && (count_q == '0 || (pop && count_q == CNT_W'(1)));
    assign out_data = is_alone_q ? alone_q : read_q;

    always_ff @(posedge clk) begin
      if (pop)   read_q  <= mem[second];
      if (alone) alone_q <= in_data;
    end

    always_ff @(posedge clk or negedge rst_n) begin
      if (!rst_n) is_alone_q <= 1'b0;
      else if (alone || pop) is_alone_q <= alone;
    end

    // A row that is read in the clock of its write is not used.
`ifdef NF_CHECKED
    logic clash_q;  // that happened in the last read
    always_ff @(posedge clk) if (pop) clash_q <= push && wr_ptr_q == second;
`endif
    `NF_ASSERT_NEVER(ClashUsed_A, clash_q && out_valid && !is_alone_q)
  end else begin : g_distributed
    assign out_data = mem[rd_ptr_q];
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      wr_ptr_q <= '0;
      rd_ptr_q <= '0;
      count_q  <= '0;
    end else begin
      if (push) wr_ptr_q <= (wr_ptr_q == PTR_W'(LAST)) ? '0 : wr_ptr_q + 1'b1;
      if (pop)  rd_ptr_q <= second;
      if (push && !pop)      count_q <= count_q + 1'b1;
      else if (pop && !push) count_q <= count_q - 1'b1;
    end
  end

  `NF_ASSERT_NEVER(CountInRange_A, count_q > CNT_W'(DEPTH))
endmodule

`default_nettype wire
