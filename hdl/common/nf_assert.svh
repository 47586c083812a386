// SPDX-License-Identifier: Apache-2.0
// Assertion macros. Icarus 11 and yosys parse no SVA: there they expand to nothing. Time 0 is left
// out: flops are random until the reset arrives. Every assertion has a name: the runner prints it
// on failure.
//
//   NF_ASSERT(name, prop)         prop, an expression of one clock, is true in every clock
//   NF_ASSERT_NEXT(name, before, after)  after a clock in which `before` is true, `after` is true
//   NF_ASSERT_NEVER(name, bad)    bad, an expression of one clock, is never true
//   NF_ASSERT_KEEPS(name, held, data)  after a clock in which `held` is true, data is unchanged
//
// The last two are checked in a clocked process, which sees the values before the edge as a
// concurrent assertion does. A concurrent one makes Verilator copy every signal of it, whole, in
// every clock, and $stable keeps a second copy: with lines of 512 bits that took a tenth of the
// simulation. NF_ASSERT_KEEPS copies and compares only while something is held, and reset and time
// are asked for only when something is wrong.
//
// Under FORMAL (see hdl/formal/) they are immediate assertions, which yosys proves; Icarus, when
// it replays a counterexample, prints the names of those that fail. NF_CHECKED is defined where
// assertions are more than nothing: state that they alone need stands under it.
`ifndef NF_ASSERT_SVH
`define NF_ASSERT_SVH

`ifdef VERILATOR
`define NF_CHECKED
`define NF_ASSERT(name, prop) \
  name: assert property (@(posedge clk) disable iff (!rst_n || $time == 0) (prop)) \
    else $error("[ASSERT FAILED] %m: %s", `"name`");
`define NF_ASSERT_NEXT(name, before, after) \
  name: assert property (@(posedge clk) disable iff (!rst_n || $time == 0) (before) |=> (after)) \
    else $error("[ASSERT FAILED] %m: %s", `"name`");
`define NF_ASSERT_NEVER(name, bad) \
  /* verilator coverage_off */ \
  /* verilator lint_off SYNCASYNCNET */ \
  /* verilator lint_off CMPCONST */ \
  always_ff @(posedge clk) if (bad) begin \
    name: assert (!rst_n || $time == 0) else $error("[ASSERT FAILED] %m: %s", `"name`"); \
  end \
  /* verilator lint_on CMPCONST */ \
  /* verilator lint_on SYNCASYNCNET */ \
  /* verilator coverage_on */
`define NF_ASSERT_KEEPS(name, held, data) \
  /* verilator coverage_off */ \
  /* verilator lint_off SYNCASYNCNET */ \
  logic                   name``_held_q; \
  logic [$bits(data)-1:0] name``_data_q; \
  always_ff @(posedge clk) begin \
    name``_held_q <= (held) && rst_n; \
    if (held) name``_data_q <= data; \
    if (name``_held_q && (name``_data_q != data)) begin \
      name: assert (!rst_n || $time == 0) else $error("[ASSERT FAILED] %m: %s", `"name`"); \
    end \
  end \
  /* verilator lint_on SYNCASYNCNET */ \
  /* verilator coverage_on */
`elsif FORMAL
`define NF_CHECKED
`ifdef __ICARUS__
`define NF_ASSERT(name, prop) \
  always @(posedge clk) if (rst_n && !(prop)) $display("[ASSERT FAILED] %m: %s", `"name`");
`define NF_KEPT_BITS(data) 1024  // $bits of a concatenation is another number there
`else
`define NF_ASSERT(name, prop) \
  always_comb if (rst_n) begin name: assert (prop); end
`define NF_KEPT_BITS(data) $bits(data)
`endif
`define NF_ASSERT_NEXT(name, before, after) \
  logic name``_q; \
  always_ff @(posedge clk) name``_q <= (before) && rst_n; \
  `NF_ASSERT(name, !(name``_q && !(after)))
`define NF_ASSERT_NEVER(name, bad) `NF_ASSERT(name, !(bad))
`define NF_ASSERT_KEEPS(name, held, data) \
  logic                           name``_held_q; \
  logic [`NF_KEPT_BITS(data)-1:0] name``_data_q; \
  always_ff @(posedge clk) begin \
    name``_held_q <= (held) && rst_n; \
    name``_data_q <= data; \
  end \
  `NF_ASSERT(name, !(name``_held_q && (name``_data_q != data)))
`else
`define NF_ASSERT(name, prop)
`define NF_ASSERT_NEXT(name, before, after)
`define NF_ASSERT_NEVER(name, bad)
`define NF_ASSERT_KEEPS(name, held, data)
`endif

`endif
