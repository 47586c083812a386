// SPDX-License-Identifier: Apache-2.0
// Counters of the cover modules. NAME_hits[i] counts the clocks in which NAME_on is 1 and NAME_at
// is i; a reset clears it. white_box.py reads it.
`ifndef NF_COVER_SVH
`define NF_COVER_SVH

// A point with one index.
`define NF_POINT(NAME, WIDTH) \
  logic [31:0] NAME``_hits [1 << (WIDTH)] /* verilator public_flat_rd */; \
  always_ff @(posedge clk) begin \
    if (!rst_n) for (int i = 0; i < (1 << (WIDTH)); i++) NAME``_hits[i] <= 0; \
    else if (NAME``_on) NAME``_hits[NAME``_at] <= NAME``_hits[NAME``_at] + 1; \
  end

// A point with COUNT indices, NAME_on[k] and NAME_at[k], that may all be hit in a clock. Those that
// are hit in the same clock must differ.
`define NF_POINTS(NAME, WIDTH, COUNT) \
  logic [31:0] NAME``_hits [1 << (WIDTH)] /* verilator public_flat_rd */; \
  always_ff @(posedge clk) begin \
    if (!rst_n) for (int i = 0; i < (1 << (WIDTH)); i++) NAME``_hits[i] <= 0; \
    else \
      for (int k = 0; k < (COUNT); k++) \
        if (NAME``_on[k]) NAME``_hits[NAME``_at[k]] <= NAME``_hits[NAME``_at[k]] + 1; \
  end

`endif
