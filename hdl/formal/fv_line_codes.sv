// SPDX-License-Identifier: Apache-2.0
// nf_line_codes against a count of the line that was taken last, code by code (controller §3).

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_line_codes
  import nf_pkg::*;
  import nf_tern5_pkg::*;
(
  input wire logic              clk,
  input wire logic              take,
  input wire logic [LINE_W-1:0] data
);
  trits_t     trits;
  logic [8:0] illegal, illegal_tern5;

  `NF_FORMAL_RESET

  nf_line_codes dut (.*);

  logic              any_q;
  logic [LINE_W-1:0] data_q;
  logic [8:0]        want;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) any_q <= 1'b0;
    else        any_q <= any_q || take;
  end

  always_ff @(posedge clk) begin
    if (take) data_q <= data;
  end

  always_comb begin
    want = 9'd0;
    for (int e = 0; e < LINE_W / 2; e++) want = want + 9'(data_q[2*e +: 2] == 2'b01);
  end

  `NF_ASSERT(Illegal_A, !any_q || illegal == want)
  `NF_ASSERT(NoTern5_A, trits == '0 && illegal_tern5 == 9'd0)

  `NF_COVER(All_C, any_q && illegal == 9'(LINE_W / 2))
  `NF_COVER(Keeps_C, any_q && !take && illegal == 9'd2)
endmodule

`default_nettype wire
