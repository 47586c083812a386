// SPDX-License-Identifier: Apache-2.0
// nf_sum against the sum of the codes of each element: the count of each bit of a code, weighed by
// the bit (second edition §7).

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_sum
  import nf_pkg::*;
#(
  parameter int CNT_W = 8
) (
  input wire logic                    clk,
  input wire logic                    en,
  input wire logic                    wide,
  input wire logic                    codes_signed,
  input wire logic                    bytes,
  input wire logic [1:0]              part,
  input wire logic [CNT_W*LINE_W-1:0] planes
);
  localparam int CODES4 = LINE_W / 4;
  localparam int CODES8 = LINE_W / 8;
  localparam int SUMS16 = LINE_W / 16;
  localparam int SUMS8  = LINE_W / 8;

  logic [LINE_W-1:0] line;

  `NF_FORMAL_RESET

  nf_sum #(.CNT_W(CNT_W)) dut (.*);

  `NF_ASSUME(LinesThatThereAre_M, !((wide || bytes) && part[1]) && !(wide && bytes))

  // A line is of what was asked for a clock ago.
  logic                    any_q, en_q, wide_q, signed_q, bytes_q;
  logic [1:0]              part_q;
  logic [CNT_W*LINE_W-1:0] planes_q;

  always_ff @(posedge clk) begin
    any_q    <= rst_n;
    planes_q <= planes;
    {en_q, wide_q, signed_q, bytes_q, part_q} <= {en, wide, codes_signed, bytes, part};
  end

  // ---- reference: the sum of every code --------------------------------------------------------
  logic [15:0]       sum4 [CODES4];
  logic [15:0]       sum8 [CODES8];
  logic [SUMS16-1:0] wrong16, wrong_wide;
  logic [SUMS8-1:0]  wrong8;

  logic [15:0] count [LINE_W];

  for (genvar i = 0; i < LINE_W; i++) begin : g_count
    logic [CNT_W-1:0] bits;
    for (genvar p = 0; p < CNT_W; p++) begin : g_plane
      assign bits[p] = planes_q[p*LINE_W + i];
    end
    assign count[i] = 16'(bits);
  end
  // In pairs: solvers take long to see that sums are equal which are added in another order.
  logic [15:0] unsigned4 [CODES4];

  for (genvar k = 0; k < CODES4; k++) begin : g_code4
    logic [15:0] low, high;
    assign low          = count[4*k] + 2 * count[4*k+1];
    assign high         = 2 * count[4*k+3];
    assign unsigned4[k] = low + 4 * (count[4*k+2] + high);
    assign sum4[k]      = signed_q ? low + 4 * (count[4*k+2] - high) : unsigned4[k];
  end
  for (genvar k = 0; k < CODES8; k++) begin : g_code8
    assign sum8[k] = unsigned4[2*k] + 16 * sum4[2*k+1];
  end

  for (genvar i = 0; i < SUMS16; i++) begin : g_sum16
    logic [15:0] shown;
    assign shown         = line[16*i +: 16];
    assign wrong16[i]    = shown != ((part_q == 2'd0) ? sum4[i] :
                                     (part_q == 2'd1) ? sum4[SUMS16 + i] :
                                     (part_q == 2'd2) ? sum4[2*SUMS16 + i] : sum4[3*SUMS16 + i]);
    assign wrong_wide[i] = shown != (part_q[0] ? sum8[SUMS16 + i] : sum8[i]);
  end
  for (genvar i = 0; i < SUMS8; i++) begin : g_sum8
    assign wrong8[i] = line[8*i +: 8] != (part_q[0] ? sum4[SUMS8 + i][7:0] : sum4[i][7:0]);
  end

  `NF_ASSERT_NEVER(Sum16_A, any_q && en_q && !wide_q && !bytes_q && wrong16 != '0)
  `NF_ASSERT_NEVER(Sum8_A, any_q && en_q && !wide_q && bytes_q && wrong8 != '0)
  `NF_ASSERT_NEVER(SumWide_A, any_q && en_q && wide_q && wrong_wide != '0)
  `NF_ASSERT_NEVER(Idle_A, any_q && !en_q && line != '0)

  `NF_COVER(Negative_C, any_q && en_q && wide_q && line[15] && !line[31] && line[30:16] != '0)
endmodule

`default_nettype wire
