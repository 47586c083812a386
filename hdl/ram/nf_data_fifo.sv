// SPDX-License-Identifier: Apache-2.0
// A FIFO of messages with a line of data: nf_fifo (see there for the handshake) whose lowest DATA_W
// bits are in a protected RAM.
//
// `out_bad`, valid with `out_data`: the data cannot be trusted, the head of the message can. It may
// rise while the message waits. A fault is reported when the message leaves.

`default_nettype none

module nf_data_fifo
  import nf_ram_pkg::*;
#(
  parameter logic [3:0] RAM = 4'd0,  // ram_e
  parameter int ECC    = 1,
  parameter int WIDTH  = 520,
  parameter int DATA_W = 512,
  parameter int DEPTH  = 2,
  parameter int BLOCK  = 0,  // nf_fifo
  parameter int INJECT_DATA = 0  // nf_ram_guard
) (
  input  wire logic                  clk,    // clock, rising edge
  input  wire logic                  rst_n,  // asynchronous reset, active low
  input  wire ram_flip_t             flip,   // bit of a protected RAM to flip
  output ram_fault_t                 fault,  // fault found in the message that leaves

  input  wire logic                  in_valid,  // input message valid
  output logic                       in_ready,  // input message taken
  input  wire logic [WIDTH-1:0]      in_data,   // input message

  output logic                       out_valid,  // output message valid
  input  wire logic                  out_ready,  // output message taken
  output logic [WIDTH-1:0]           out_data,   // output message, stable while it waits
  output logic                       out_bad,  // its data cannot be trusted

  output logic [$clog2(DEPTH+1)-1:0] count  // messages held
);
  localparam int CHECK_W = ram_check_w(DATA_W, ECC);
  localparam int ROW_W   = $clog2(DEPTH);
  localparam int LAST    = DEPTH - 1;

  logic [ROW_W-1:0]   wr_row_q, rd_row_q;
  logic [WIDTH-1:0]   head;
  logic [DATA_W-1:0]  data;
  logic [CHECK_W-1:0] in_check, out_check;
  logic               push, pop;

  assign push = in_valid && in_ready;
  assign pop  = out_valid && out_ready;

  nf_fifo #(.WIDTH(WIDTH + CHECK_W), .DEPTH(DEPTH), .BLOCK(BLOCK)) u_fifo (
    .clk, .rst_n,
    .in_valid, .in_ready,
    .in_data ({in_check, in_data}),
    .out_valid, .out_ready,
    .out_data ({out_check, head}), .count
  );

  // The rows that the FIFO uses, in turn.
  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      wr_row_q <= '0;
      rd_row_q <= '0;
    end else begin
      if (push) wr_row_q <= (wr_row_q == ROW_W'(LAST)) ? '0 : wr_row_q + 1'b1;
      if (pop)  rd_row_q <= (rd_row_q == ROW_W'(LAST)) ? '0 : rd_row_q + 1'b1;
    end
  end

  /* verilator lint_off PINCONNECTEMPTY */
  nf_ram_guard #(
    .RAM(RAM), .ROWS(DEPTH),
    .WIDTH(DATA_W), .ECC(ECC), .INJECT_DATA(INJECT_DATA)
  ) u_guard (
    .clk, .rst_n,
    .flip,
    .wr_en (push), .wr_row (wr_row_q),
    .wr_data (in_data[DATA_W-1:0]), .wr_check (in_check),
    .rd_en (pop), .rd_row (rd_row_q),
    .rd_word (head[DATA_W-1:0]), .rd_check (out_check),
    .data, .bad (out_bad),
    .corrected (), .fault
  );
  /* verilator lint_on PINCONNECTEMPTY */

  assign out_data = {head[WIDTH-1:DATA_W], data};
endmodule

`default_nettype wire
