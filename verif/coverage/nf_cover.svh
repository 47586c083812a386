// SPDX-License-Identifier: Apache-2.0
// Counters of the cover modules. NAME_hits[i] counts the clocks in which NAME_on is 1 and NAME_at
// is i, and bit i of NAME_seen tells that there was one; a reset clears both. white_box.py reads
// them: a counter is read where its bit is 1, since each costs a call over the simulator's
// interface. NAME_seen is assigned at once: a later assignment would copy all of it in each clock.
`ifndef NF_COVER_SVH
`define NF_COVER_SVH

// A mode as part of an index. Integer modes count as G_BINARY: the pipeline treats their lines
// alike, and the points of engine_points.py tell them apart.
`define NF_COVER_MODE(MODE) (is_int(MODE) ? 2'd1 : 2'(MODE))

// A point with one index.
`define NF_POINT(NAME, WIDTH) \
  logic [31:0] NAME``_hits [1 << (WIDTH)] /* verilator public_flat_rd */; \
  logic [(1 << (WIDTH))-1:0] NAME``_seen /* verilator public_flat_rd */; \
  always_ff @(posedge clk) begin \
    if (!rst_n) for (int i = 0; i < (1 << (WIDTH)); i++) NAME``_hits[i] <= 0; \
    else if (NAME``_on) NAME``_hits[NAME``_at] <= NAME``_hits[NAME``_at] + 1; \
  end \
  /* verilator lint_off BLKSEQ */ \
  always @(posedge clk) begin \
    if (!rst_n) NAME``_seen = '0; \
    else if (NAME``_on) NAME``_seen[NAME``_at] = 1'b1; \
  end \
  /* verilator lint_on BLKSEQ */

// A point with COUNT indices, NAME_on[k] and NAME_at[k], that may all be hit in a clock. Those that
// are hit in the same clock must differ.
`define NF_POINTS(NAME, WIDTH, COUNT) \
  logic [31:0] NAME``_hits [1 << (WIDTH)] /* verilator public_flat_rd */; \
  logic [(1 << (WIDTH))-1:0] NAME``_seen /* verilator public_flat_rd */; \
  always_ff @(posedge clk) begin \
    if (!rst_n) for (int i = 0; i < (1 << (WIDTH)); i++) NAME``_hits[i] <= 0; \
    else \
      for (int k = 0; k < (COUNT); k++) \
        if (NAME``_on[k]) NAME``_hits[NAME``_at[k]] <= NAME``_hits[NAME``_at[k]] + 1; \
  end \
  /* verilator lint_off BLKSEQ */ \
  always @(posedge clk) begin \
    if (!rst_n) NAME``_seen = '0; \
    else for (int k = 0; k < (COUNT); k++) if (NAME``_on[k]) NAME``_seen[NAME``_at[k]] = 1'b1; \
  end \
  /* verilator lint_on BLKSEQ */

`endif
