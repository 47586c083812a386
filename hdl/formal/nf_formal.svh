// SPDX-License-Identifier: Apache-2.0
// Macros of the proofs: a reset, assumptions and cover statements; assertions are those of
// nf_assert.svh. yosys reads them as immediate assertions. Icarus, which replays a counterexample,
// prints the assumptions that the stimulus breaks: there are none, or it is no counterexample.
//
//   NF_FORMAL_RESET             `rst_n`, low in the first clock alone
//   NF_FORMAL_NO_RESET          `rst_n` of a module without state, always high
//   NF_ASSUME(name, prop)       prop, an expression of one clock, is true in every clock
//   NF_ASSUME_KEEPS(name, held, data)  after a clock in which `held` is true, data is what it was
//   NF_COVER(name, prop)        some run reaches a clock in which prop is true
`ifndef NF_FORMAL_SVH
`define NF_FORMAL_SVH
`include "nf_assert.svh"

`define NF_FORMAL_RESET \
  logic rst_n; \
  initial rst_n = 1'b0; \
  always_ff @(posedge clk) rst_n <= 1'b1;

`define NF_FORMAL_NO_RESET \
  logic rst_n; \
  assign rst_n = 1'b1;

`ifdef __ICARUS__
`define NF_ASSUME(name, prop) \
  always @(posedge clk) if (rst_n && !(prop)) $display("[ASSUME BROKEN] %m: %s", `"name`");
`define NF_COVER(name, prop)
`else
`define NF_ASSUME(name, prop) \
  always_comb if (rst_n) begin name: assume (prop); end
`define NF_COVER(name, prop) \
  always_comb if (rst_n) begin name: cover (prop); end
`endif
`define NF_ASSUME_KEEPS(name, held, data) \
  logic                           name``_held_q; \
  logic [`NF_KEPT_BITS(data)-1:0] name``_data_q; \
  always_ff @(posedge clk) begin \
    name``_held_q <= (held) && rst_n; \
    name``_data_q <= data; \
  end \
  `NF_ASSUME(name, !(name``_held_q && (name``_data_q != data)))

`endif
