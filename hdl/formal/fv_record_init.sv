// SPDX-License-Identifier: Apache-2.0
// nf_record_init with evictions that come first: when it has finished, each record was overwritten
// once, by the initialiser or with the first eviction into its group; and whoever waits for a group
// that is being overwritten waits for a bounded time, while memory takes a write in a clock and
// answers it two clocks later at most. Four lines in two groups; one of the lines is chosen freely.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_record_init
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
  parameter int WAIT = 11  // clocks that a group is waited for, at most
) (
  input wire logic       clk,
  input wire logic       start,   // the region is committed
  input wire logic       hold,
  input wire logic       others,
  input wire logic       mark,    // an eviction marks a line
  input wire logic [1:0] marked,  // that line
  input wire logic       answer,
  input wire logic [1:0] chosen
);
  localparam int LINES = 4;

  region_desc_t       d;
  logic [DESCS_W-1:0] desc;
  logic               fresh, busy, busy_writes, failed, a_waits, b_waits, c_ahead;
  logic               probe, probe_ready, probe_marked, wr_valid, b_valid;
  logic [3:0]         region;
  line_id_t           probe_line;
  logic [LADDR_W-1:0] wr_addr;
  logic [1:0]         line, marked_q;

  `NF_FORMAL_RESET

  always_comb begin
    d            = '0;
    d.mode       = MODE_FP32;
    d.lines_log2 = 6'd2;
    d.workers    = 8'd1;
    desc         = DESCS_W'(d);
  end

  nf_record_init #(.REGIONS(1), .CNT_W(1), .MARKS_LOG2(1), .GROUPS(2), .PATIENCE(1)) dut (
    .clk, .rst_n, .hold, .others, .start, .cancel(1'b0), .desc, .fresh, .busy, .busy_writes,
    .failed, .region, .a(make_line_id(4'd0, INDEX_W'(chosen))), .a_waits,
    .b(make_line_id(4'd0, INDEX_W'(chosen))), .b_waits,
    .c(make_line_id(4'd0, INDEX_W'(marked_q))), .c_ahead, .probe, .probe_ready, .probe_line,
    .probe_marked, .wr_valid, .wr_ready(wr_valid), .wr_addr, .b_valid, .b_err(1'b0)
  );

  // ---- the marks of the groups (nf_written), and memory -----------------------------------------
  logic [1:0] marks_q, under_way_q, age_q;
  logic       mark_q, first_q, probed_q, probed_group_q, started_q;

  assign probe_ready  = !mark;
  assign probe_marked = probed_q && marks_q[probed_group_q];
  assign line         = 2'(wr_addr - LADDR_W'(LINES));  // the records come after the data
  assign b_valid      = answer && under_way_q != '0;

  `NF_ASSUME_KEEPS(OneLine_M, 1'b1, chosen)
  `NF_ASSUME(OnlyOnce_M, !(start && started_q))
  `NF_ASSUME(AfterCommit_M, !mark || started_q)
  `NF_ASSUME(MemoryAnswers_M, under_way_q == '0 || age_q != 2'd2 || answer)
  `NF_ASSUME(NoHold_M, !hold)

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      marks_q     <= '0;
      under_way_q <= '0;
      age_q       <= '0;
      mark_q      <= 1'b0;
      probed_q    <= 1'b0;
      started_q   <= 1'b0;
    end else begin
      if (mark) marks_q[marked[1]] <= 1'b1;
      under_way_q <= under_way_q + 2'(wr_valid) - 2'(b_valid);
      age_q       <= (b_valid || under_way_q == '0) ? '0 : age_q + 2'd1;
      mark_q      <= mark;
      probed_q    <= probe && probe_ready;
      started_q   <= started_q || start;
    end
  end

  always_ff @(posedge clk) begin
    marked_q       <= marked;
    first_q        <= !marks_q[marked[1]];
    probed_group_q <= probe_line.index[1];
  end

  // ---- who overwrites the record of the chosen line ---------------------------------------------
  logic       walked_q, evicted_q, evicts;
  logic [4:0] waited_q;

  assign evicts = mark_q && first_q && c_ahead && marked_q[1] == chosen[1];

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      walked_q  <= 1'b0;
      evicted_q <= 1'b0;
      waited_q  <= '0;
    end else begin
      walked_q  <= walked_q || (wr_valid && line == chosen);
      evicted_q <= evicted_q || evicts;
      waited_q  <= b_waits ? waited_q + 5'd1 : '0;
    end
  end

  `NF_ASSERT_NEVER(Twice_A, wr_valid && line == chosen && (walked_q || evicted_q || evicts))
  `NF_ASSERT_NEVER(EvictedToo_A, evicts && (walked_q || evicted_q))
  `NF_ASSERT_NEVER(Never_A, started_q && !busy && !(walked_q || evicted_q || evicts))
  `NF_ASSERT_NEVER(TooEarly_A, b_waits && (evicted_q || evicts))
  `NF_ASSERT_NEVER(Bounded_A, 32'(waited_q) > WAIT)

  `NF_COVER(Walked_C, started_q && !busy && walked_q)
  `NF_COVER(Evicted_C, started_q && !busy && evicted_q)
endmodule

`default_nettype wire
