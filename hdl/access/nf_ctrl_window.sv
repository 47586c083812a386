// SPDX-License-Identifier: Apache-2.0
// Registers read and written through the control window, a line at a time.
//
// Handshake: `op_*`, `ndr_*` and `drs_*` are valid/ready. A write is accepted when the register bus
// is `bus_free`, and keeps it (`lock` of `bus`) until its last word is written: `write` with word
// and data is held until `bus_done`, which follows the decision of a commit if the word requests
// one. Words are written in the order of their addresses. A read takes `bus_line` in the clock of
// `read`: 16 registers at one moment.
//
// No commit waits for accesses to the window (nf_drain): a write in progress may be the one that
// requests it, and a request that waits for its turn after it (or after AXI4-Lite) is decoded again
// when the turn comes.

`default_nettype none
`include "nf_assert.svh"

module nf_ctrl_window
  import nf_pkg::*;
  import nf_core_pkg::*;
(
  input  wire logic              clk,    // clock, rising edge
  input  wire logic              rst_n,  // asynchronous reset, active low

  input  wire logic              op_valid,  // access to the window valid
  output logic                   op_ready,  // access taken
  input  wire ctrl_op_t          op,        // access: read or write of one line of registers

  output ctrl_bus_t              bus,       // request to the register bus
  input  wire logic              bus_free,  // no other write is under way
  input  wire logic              bus_done,  // the word has been written
  input  wire logic [LINE_W-1:0] bus_line,  // 16 registers, valid in the cycle of `read`

  output logic                   ndr_valid,  // completion of a write valid
  input  wire logic              ndr_ready,  // completion taken
  output resp_meta_t             ndr_meta,   // requester and region of the completion
  output logic                   drs_valid,  // answer to a read valid
  input  wire logic              drs_ready,  // answer with data taken
  output answer_t                drs         // answer with data
);
  logic                  busy_q, read_q, answer_q;
  ctrl_op_t              op_q;  // its words are in left_q
  logic [CTRL_WORDS-1:0] left_q, first;
  logic [3:0]            word;
  logic [LINE_W-1:0]     data;
  logic                  take, writing, answered;

  assign data     = op_q.data;
  assign op_ready = !busy_q && (bus_free || !op.write);
  assign take     = op_valid && op_ready;
  assign writing  = busy_q && op_q.write && !answer_q;
  assign first    = left_q & (~left_q + CTRL_WORDS'(1));  // the lowest that is left
  assign answered = (ndr_valid && ndr_ready) || (drs_valid && drs_ready);

  always_comb begin
    word = '0;
    for (int w = 0; w < CTRL_WORDS; w++) begin
      if (first[w]) word = word | 4'(w);
    end
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      busy_q   <= 1'b0;
      read_q   <= 1'b0;
      answer_q <= 1'b0;
    end else if (take) begin
      busy_q   <= 1'b1;
      read_q   <= !op.write;
      answer_q <= op.write && op.words == '0;
    end else if (answered) begin
      busy_q   <= 1'b0;
      answer_q <= 1'b0;
    end else begin
      read_q <= 1'b0;
      if (read_q || (writing && bus_done && left_q == first)) answer_q <= 1'b1;
    end
  end

  always_ff @(posedge clk) begin
    if (take) left_q <= op.words;  // of a read: whatever they are
    else if (writing && bus_done) left_q <= left_q & ~first;
    if (take) op_q <= op;
    else if (read_q) op_q.data <= bus_line;
  end

  assign bus       = make_ctrl_bus(writing, op_q.line, read_q, writing, word,
                                   data[32'(word)*32 +: 32]);
  assign ndr_valid = answer_q && op_q.write;
  assign ndr_meta  = op_q.meta;
  assign drs_valid = answer_q && !op_q.write;
  assign drs       = make_answer(op_q.meta, 1'b0, op_q.data);

  `NF_ASSERT_KEEPS(LockHeld_A, bus.lock && !bus_done, bus)
  `NF_ASSERT_NEVER(WordLeft_A, bus.write && left_q == '0)
  `NF_ASSERT_NEVER(ReadAlone_A, bus.read && bus.write)
endmodule

`default_nettype wire
