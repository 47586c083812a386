// SPDX-License-Identifier: Apache-2.0
// Which requests came before a commit, and whether all of them have been answered.
//
// Requests form batches: `start` (a commit begins) ends a batch and begins the other. `batch` is
// that of a request that is `taken` in this clock; its answer brings it back. `gone`: every request
// of the batch before has been answered. Requests of the present batch go on meanwhile.
//
// With `closing`, `left` says that these answers with data have left the device, too: those that
// wait in the queue (`waiting`) when the last one has come are counted until the link has taken
// them, then `stop` keeps later ones from the link until it is empty (`link_empty`).

`default_nettype none
`include "nf_assert.svh"

module nf_drain (
  input  wire logic       clk,    // clock, rising edge
  input  wire logic       rst_n,  // asynchronous reset, active low

  input  wire logic       start,      // a commit begins
  input  wire logic       taken,      // a request is taken
  output logic            batch,      // its batch
  input  wire logic       ndr_done,   // a completion goes to its queue
  input  wire logic       ndr_batch,  // batch of its request
  input  wire logic       drs_done,   // an answer with data goes to its queue
  input  wire logic       drs_batch,  // batch of its request
  output logic            gone,       // all requests of the batch before are answered

  input  wire logic       closing,     // a round is being closed
  input  wire logic [7:0] waiting,     // answers with data in the queue
  input  wire logic       sent,        // the link takes one
  input  wire logic       link_empty,  // every one that it has taken has left
  output logic            stop,        // let it take none
  output logic            left         // those of the batch before have left
);
  logic       batch_q, tail_q;
  logic [7:0] count_q [2];  // requests without an answer
  logic [7:0] left_q;       // answers of the batch before that the link has not taken

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n)     batch_q <= 1'b0;
    else if (start) batch_q <= !batch_q;
  end

  for (genvar b = 0; b < 2; b++) begin : g_batch
    always_ff @(posedge clk or negedge rst_n) begin
      if (!rst_n) count_q[b] <= '0;
      else count_q[b] <= count_q[b] + 8'(taken && batch_q == 1'(b))
                         - 8'(ndr_done && ndr_batch == 1'(b)) - 8'(drs_done && drs_batch == 1'(b));
    end
    `NF_ASSERT_NEVER(Under_A, 9'(count_q[b]) + 9'(taken && batch_q == 1'(b))
                              < 9'(ndr_done && ndr_batch == 1'(b))
                                + 9'(drs_done && drs_batch == 1'(b)))
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n)            tail_q <= 1'b0;
    else if (!closing)     tail_q <= 1'b0;
    else if (gone)         tail_q <= 1'b1;
  end

  always_ff @(posedge clk) begin
    if (!tail_q) left_q <= waiting - 8'(sent);
    else if (sent && left_q != '0) left_q <= left_q - 8'd1;
  end

  assign batch = batch_q;
  assign gone  = (batch_q ? count_q[0] : count_q[1]) == '0;
  assign stop  = tail_q && left_q == '0;
  assign left  = stop && link_empty;

  `NF_ASSERT_NEVER(StartBusy_A, start && !gone)
endmodule

`default_nettype wire
