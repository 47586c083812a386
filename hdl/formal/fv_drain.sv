// SPDX-License-Identifier: Apache-2.0
// nf_drain: `gone` says that each request that was taken before the commit has been answered, and
// `left` that its answer with data has left the queue, and the link; one request is chosen freely.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_drain #(
  parameter int OPS = 3  // requests without an answer, at most
) (
  input wire logic clk,
  input wire logic start,
  input wire logic taken,
  input wire logic follow,     // the request that is taken is the chosen one
  input wire logic ndr_done,
  input wire logic drs_done,
  input wire logic other_ndr,  // batches of answers to others
  input wire logic other_drs,
  input wire logic ends,       // the answer with data is that of the chosen one
  input wire logic closing,
  input wire logic sent,
  input wire logic leaves,     // the link sends what it has taken
  input wire logic link_empty
);
  logic       batch, gone, stop, left, ndr_batch, drs_batch;
  logic [7:0] waiting;

  `NF_FORMAL_RESET

  nf_drain dut (
    .clk, .rst_n, .start, .taken, .batch, .ndr_done, .ndr_batch, .drs_done, .drs_batch, .gone,
    .closing, .waiting, .sent, .link_empty, .stop, .left
  );

  logic       followed_q, own_q, answered_q, waits_q, inside_q, commits_q, later_q;
  logic [1:0] count_q [2];
  logic [7:0] waiting_q, before_q;  // answers in the queue, and those before the chosen one

  assign waiting   = waiting_q;
  assign ndr_batch = other_ndr;
  assign drs_batch = ends ? own_q : other_drs;

  // Others of a batch: all but the chosen one.
  `NF_ASSUME(Room_M, !taken || 32'(count_q[0]) + 32'(count_q[1]) + 32'(followed_q) < OPS)
  `NF_ASSUME(Answered_M, (!ndr_done || count_q[other_ndr] != '0)
                         && (!drs_done || ends
                             || count_q[other_drs] > 2'(ndr_done && other_ndr == other_drs)))
  `NF_ASSUME(Chosen_M, !ends || (drs_done && followed_q && !answered_q))
  `NF_ASSUME(Once_M, !follow || (taken && !followed_q))
  `NF_ASSUME(Sent_M, !sent || (waiting_q != '0 && !stop))
  `NF_ASSUME(StartWhenGone_M, !start || (gone && !commits_q))
  `NF_ASSUME(Closing_M, closing == commits_q)
  `NF_ASSUME(LinkKeeps_M, !link_empty || !inside_q)

  for (genvar b = 0; b < 2; b++) begin : g_batch
    always_ff @(posedge clk or negedge rst_n) begin
      if (!rst_n) count_q[b] <= '0;
      else count_q[b] <= count_q[b] + 2'(taken && !follow && batch == 1'(b))
                         - 2'(ndr_done && ndr_batch == 1'(b))
                         - 2'(drs_done && !ends && drs_batch == 1'(b));
    end
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      followed_q <= 1'b0;
      answered_q <= 1'b0;
      waits_q    <= 1'b0;
      inside_q   <= 1'b0;
      commits_q  <= 1'b0;
      later_q    <= 1'b0;
      waiting_q  <= '0;
    end else begin
      if (follow) followed_q <= 1'b1;
      if (ends) answered_q <= 1'b1;
      if (ends) waits_q <= 1'b1;
      else if (sent && before_q == '0) waits_q <= 1'b0;
      if (sent && waits_q && before_q == '0) inside_q <= 1'b1;
      else if (leaves) inside_q <= 1'b0;
      commits_q <= start || (commits_q && !left);
      if (start) later_q <= followed_q || follow;
      waiting_q <= waiting_q + 8'(drs_done) - 8'(sent);
    end
  end

  always_ff @(posedge clk) begin
    if (follow) own_q <= batch;
    if (ends) before_q <= waiting_q - 8'(sent);
    else if (sent && before_q != '0) before_q <= before_q - 8'd1;
  end

  // `later_q`: the commit came after the chosen request.
  `NF_ASSERT_NEVER(Gone_A, commits_q && gone && later_q && !answered_q && own_q != batch)
  `NF_ASSERT_NEVER(Left_A, commits_q && left && later_q && (waits_q || inside_q) && own_q != batch)

  `NF_COVER(Left_C, commits_q && left && later_q && answered_q && own_q != batch)
endmodule

`default_nettype wire
