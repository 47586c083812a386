// SPDX-License-Identifier: Apache-2.0
// nf_accumulate against one saturating count for each element: what a contribution adds, in each
// mode, lane by lane (controller §4). With ECP5 it is nf_ecp5_accumulate, which chooses the planes
// itself, leaves those alone that no worker reaches, and is not asked to add to a count at the
// maximum of those below. The choice that it makes is that of nf_line_rules (fv_line_state).

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_accumulate
  import nf_pkg::*;
#(
  parameter int CNT_W = 8,
  parameter int ECP5  = 0
) (
  input wire logic                    clk,
  input wire logic                    en,
  input wire logic                    ternary,
  input wire logic                    ones,
  input wire logic [LINE_W-1:0]       data,
  input wire logic [CNT_W*LINE_W-1:0] planes_read,
  input wire logic [CNT_W*LINE_W-1:0] planes_newer,
  input wire logic                    forward,
  input wire logic [CNT_W-1:0]        has
);
  logic [CNT_W*LINE_W-1:0] planes_in;
  logic [CNT_W*LINE_W-1:0] planes_out;
  logic                    saturated;

  `NF_FORMAL_NO_RESET

  localparam int COUNTED = counting_planes(CNT_W);
  localparam bit PASSES  = (ECP5 != 0) && ((1 << COUNTED) > MAX_WORKERS);

  for (genvar p = 0; p < CNT_W; p++) begin : g_in
    assign planes_in[p*LINE_W +: LINE_W] = !has[p] ? '0
        : forward ? planes_newer[p*LINE_W +: LINE_W] : planes_read[p*LINE_W +: LINE_W];
  end

  if (ECP5 != 0) begin : g_ecp5
    nf_ecp5_accumulate #(.CNT_W(CNT_W)) dut (.*);
  end else begin : g_portable
    nf_accumulate #(.CNT_W(CNT_W)) dut (.*);
  end

  if (PASSES) begin : g_passes
    logic [LINE_W-1:0] full;
    for (genvar i = 0; i < LINE_W; i++) begin : g_column
      logic [COUNTED-1:0] count;
      for (genvar p = 0; p < COUNTED; p++) begin : g_bit
        assign count[p] = planes_in[p*LINE_W + i];
      end
      assign full[i] = &count;
    end
    `NF_ASSUME(SixtyFour_M,
               full == '0 && ((CNT_W*LINE_W+1)'(planes_in) >> (COUNTED * LINE_W)) == '0)
  end

  `NF_ASSUME(OneMode_M, !(ternary && ones))

  // ---- reference: each count as a number -------------------------------------------------------
  logic [LINE_W-1:0]   wrong, lost;
  logic [LINE_W/2-1:0] plus, minus;

  for (genvar e = 0; e < LINE_W / 2; e++) begin : g_element
    // Gate in the upper bit, sign in the lower: 10 is +1, 11 is -1, 00 nothing, 01 illegal.
    assign plus[e]  = data[2*e +: 2] == 2'b10;
    assign minus[e] = data[2*e +: 2] == 2'b11;
  end

  for (genvar i = 0; i < LINE_W; i++) begin : g_lane
    logic [CNT_W-1:0] was, now;
    logic [CNT_W:0]   sum;
    logic             vote;

    for (genvar p = 0; p < CNT_W; p++) begin : g_bit
      assign was[p] = planes_in[p*LINE_W + i];
      assign now[p] = planes_out[p*LINE_W + i];
    end
    assign vote     = ternary ? ((i % 2 == 0) ? plus[i/2] : minus[i/2]) : (data[i] == ones);
    assign sum      = {1'b0, was} + (CNT_W+1)'(en && vote);
    assign lost[i]  = sum[CNT_W];
    assign wrong[i] = now != (sum[CNT_W] ? '1 : sum[CNT_W-1:0]);
  end

  `NF_ASSERT_NEVER(Counts_A, wrong != '0)
  `NF_ASSERT(Saturated_A, saturated == (lost != '0))

  `NF_COVER(Saturates_C, (saturated || PASSES) && en && ternary)
endmodule

`default_nettype wire
