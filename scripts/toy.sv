// SPDX-License-Identifier: Apache-2.0
`default_nettype none
module toy #(parameter int WIDTH = 8) (
  input wire logic clk, input wire logic rst_n,
  input wire logic [WIDTH-1:0] d, output logic [WIDTH-1:0] q
);
  `include "toy.svh"
  logic [WIDTH-1:0] inner;
  logic [31:0] unset, rolled;  // never reset; drawn by the design at time 0
  always_ff @(posedge clk) unset <= unset + 1;
  initial rolled = $urandom;
  always_ff @(posedge clk or negedge rst_n)
    if (!rst_n) q <= '0;
    else        q <= d + `STEP;
  assign inner = q;
`ifdef VERILATOR
  NeverThirteen: assert property (@(posedge clk) disable iff (!rst_n) d != 13)
    else $error("[ASSERT FAILED] %m: %s", "NeverThirteen");
`endif
endmodule
