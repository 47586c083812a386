// SPDX-License-Identifier: Apache-2.0
// nf_written: a line that was marked in this round may have a record of at least as many planes,
// and a line of whose group none was marked in this round has none, however many commits ago its
// row was marked. A region has four rows, here of two marks, so that round numbers come back after
// four commits, and twice as many lines as marks; a line is chosen freely. Nothing flips in the
// RAM.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_written
  import nf_pkg::*;
  import nf_core_pkg::*;
  import nf_ram_pkg::*;
#(
  parameter int REGIONS = 1
) (
  input wire logic               clk,
  input wire logic [REGIONS-1:0] clear,   // commit
  input wire logic               look,
  input wire logic [3:0]         ask_region,
  input wire logic [3:0]         ask_index,
  input wire logic               mark,
  input wire logic [3:0]         mark_region,
  input wire logic [3:0]         mark_index,
  input wire logic [1:0]         mark_planes,
  input wire logic               probe,
  input wire logic [3:0]         chosen_region,
  input wire logic [3:0]         chosen_index
);
  localparam int LOG2 = 3;  // marks of a region

  region_desc_t       d;
  logic [DESCS_W-1:0] desc;
  line_id_t           chosen, ask, marked, marked_line;
  logic               maybe, marked_first, probe_ready, probe_marked, swept, idle;
  logic [REGIONS-1:0] doubt;
  logic [3:0]         planes;
  ram_fault_t         ram_fault;
  ram_flip_t          no_flip;

  `NF_FORMAL_RESET

  always_comb begin
    d            = '0;
    d.mode       = MODE_G_BINARY;
    d.lines_log2 = 6'(LOG2 + 1);
    d.workers    = 8'd7;
    desc         = '0;
    for (int r = 0; r < REGIONS; r++) desc[r*DESC_W +: DESC_W] = d;
  end

  assign no_flip = '0;
  assign chosen = make_line_id(chosen_region, INDEX_W'(chosen_index));
  assign ask    = make_line_id(ask_region, INDEX_W'(ask_index));
  assign marked = make_line_id(mark_region, INDEX_W'(mark_index));

  nf_written #(.REGIONS(REGIONS), .CNT_W(3), .LOG2(LOG2), .ECC(0)) dut (
    .clk, .rst_n, .ram_flip(no_flip), .ram_fault, .desc, .clear, .look, .ask0(ask), .ask1(ask),
    .second(1'b0), .ask_leaves(1'b0), .maybe, .planes, .used(1'b0), .mark, .mark_line(marked),
    .mark_planes(4'(mark_planes)), .marked_line, .marked_first, .fresh(REGIONS'(0)), .doubt, .probe,
    .probe_ready, .probe_line(ask), .probe_marked, .swept, .idle
  );

  `NF_ASSUME_KEEPS(OneLine_M, 1'b1, chosen)
  `NF_ASSUME(Regions_M, 32'(chosen_region) < REGIONS && 32'(ask_region) < REGIONS
                        && 32'(mark_region) < REGIONS)
  `NF_ASSUME(OneCommit_M, $onehot0(clear))
  `NF_ASSUME(CommitAlone_M, clear == '0 || (!look && idle))
  `NF_ASSUME(AfterSweep_M, !mark || swept)

  function automatic logic same_group(input line_id_t a, input line_id_t b);
    return a.region == b.region && a.index[3:1] == b.index[3:1];
  endfunction

  // ---- marks of the chosen line, and of any line of its group, in this round --------------------
  logic       line_q, group_q, expect_q, looked_q, probed_q, hit_q, hits, hits_line, cleared;
  logic [1:0] most_q;  // planes of the line's mark

  assign hits      = mark && same_group(marked, chosen);
  assign hits_line = mark && marked == chosen;
  assign cleared   = clear[32'(chosen_region) % REGIONS];

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      line_q   <= 1'b0;
      group_q  <= 1'b0;
      looked_q <= 1'b0;
      probed_q <= 1'b0;
      hit_q    <= 1'b0;
    end else begin
      line_q   <= (line_q || hits_line) && !cleared;
      group_q  <= (group_q || hits) && !cleared;
      looked_q <= look && ask == chosen;
      probed_q <= probe && probe_ready && same_group(ask, chosen);
      hit_q    <= hits;
    end
  end

  always_ff @(posedge clk) begin
    expect_q <= group_q && !cleared;  // of a probe, and of a mark, of this clock
    if (hits_line && (!line_q || mark_planes > most_q)) most_q <= mark_planes;
  end

  `NF_ASSERT_NEVER(Forgotten_A, looked_q && line_q && !maybe)
  `NF_ASSERT_NEVER(TooShort_A, looked_q && line_q && planes < 4'(most_q))
  `NF_ASSERT_NEVER(OldRound_A, looked_q && !group_q && maybe)
  `NF_ASSERT_NEVER(Probe_A, probed_q && probe_marked != expect_q)
  `NF_ASSERT_NEVER(First_A, hit_q && marked_first != !expect_q)

  `NF_COVER(Marked_C, looked_q && line_q && planes == 4'd2)
  `NF_COVER(NotMarked_C, looked_q && !group_q && swept)
endmodule

`default_nettype wire
