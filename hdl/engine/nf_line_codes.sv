// SPDX-License-Identifier: Apache-2.0
// Decoder of the codes of a line: one clock after its bytes the elements of G_TERN5, and whether
// any code is illegal; two clocks later, the number of illegal codes.
//
// A line is decoded while its state is checked (S1): `take` is the clock in which its operation
// enters S2, where `trits` and `illegal_*` belong to the line of the last `take`. In S2 `counts`
// requests the number of its illegal codes, with `tern5` those of G_TERN5; `count` belongs to the
// line of two clocks before (S4), and is 0 without such a request. The codes of a whole line are
// summed in four clocks: in two they would be the longest path of the low-bit datapath.

`default_nettype none

module nf_line_codes
  import nf_pkg::*;
  import nf_tern5_pkg::*;
#(
  parameter int TERN5 = 0
) (
  input  wire logic              clk,              // clock, rising edge
  input  wire logic              rst_n,            // asynchronous reset, active low
  input  wire logic              take,             // the operation of the line enters S2
  input  wire logic [LINE_W-1:0] data,             // bytes of the line
  input  wire logic              counts,           // count its illegal codes
  input  wire logic              tern5,            // count those of G_TERN5
  output trits_t                 trits,            // elements of a G_TERN5 line
  output logic                   illegal_ternary,  // an element has code 01
  output logic                   illegal_tern5,    // a byte is illegal
  output logic [8:0]             count             // elements
);
  localparam int CODES   = LINE_W / 2;
  localparam int GROUP   = 8;   // codes that S1 counts
  localparam int GROUPS  = CODES / GROUP;
  localparam int COUNT_W = 4;
  localparam int PARTS   = GROUPS / 4;  // sums of S2
  localparam int PART_W  = 6;
  localparam int HALVES  = (PARTS < 2) ? 1 : 2;  // sums of S3

  if (CODES % GROUP != 0 || GROUPS % 4 != 0 || PARTS % HALVES != 0) begin : g_bad_group
    initial $fatal(1, "nf_line_codes: a line must be whole groups of codes");
  end

  // ---- S1: groups -------------------------------------------------------------------------------
  logic [CODES-1:0]          bad;
  logic [GROUPS*COUNT_W-1:0] group, group_q;

  for (genvar e = 0; e < CODES; e++) begin : g_bad
    assign bad[e] = data[2*e +: 2] == 2'b01;
  end

  for (genvar g = 0; g < GROUPS; g++) begin : g_group
    assign group[g*COUNT_W +: COUNT_W] = COUNT_W'($countones(bad[g*GROUP +: GROUP]));
  end

  always_ff @(posedge clk) begin
    if (take) group_q <= group;
  end

  assign illegal_ternary = |group_q;

  // ---- S2: sums of groups -----------------------------------------------------------------------
  logic [PARTS*PART_W-1:0] ternary_part, tern5_part, part_q;

  always_comb begin
    ternary_part = '0;
    for (int g = 0; g < GROUPS; g++) begin
      ternary_part[g*PARTS/GROUPS*PART_W +: PART_W] =
        ternary_part[g*PARTS/GROUPS*PART_W +: PART_W] + PART_W'(group_q[g*COUNT_W +: COUNT_W]);
    end
  end

  if (TERN5 != 0) begin : g_tern5
    localparam int PART = BYTES / PARTS;  // bytes
    logic [BYTES-1:0] bad_bytes, bad_bytes_q;

    nf_tern5_decode u_decode (.clk, .take, .data, .trits);

    for (genvar j = 0; j < BYTES; j++) begin : g_bad_byte
      assign bad_bytes[j] = is_illegal(data[8*j +: 8]);
    end

    for (genvar p = 0; p < PARTS; p++) begin : g_part
      assign tern5_part[p*PART_W +: PART_W] = PART_W'($countones(bad_bytes_q[p*PART +: PART]));
    end

    always_ff @(posedge clk) begin
      if (take) bad_bytes_q <= bad_bytes;
    end

    assign illegal_tern5 = |bad_bytes_q;
  end else begin : g_no_tern5
    assign trits         = '0;
    assign illegal_tern5 = 1'b0;
    assign tern5_part    = '0;
  end

  // ---- S3, S4: the line -------------------------------------------------------------------------
  logic                taken_q, counted_q, summed_q, tern5_q, tern5_sum_q;
  logic [HALVES*9-1:0] half, half_q;
  logic [8:0]          sum;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      taken_q   <= 1'b0;
      counted_q <= 1'b0;
      summed_q  <= 1'b0;
    end else begin
      taken_q   <= take;
      counted_q <= counts;
      summed_q  <= counted_q;
    end
  end

  always_ff @(posedge clk) begin
    if (taken_q) begin
      part_q  <= (TERN5 != 0 && tern5) ? tern5_part : ternary_part;
      tern5_q <= (TERN5 != 0) && tern5;
    end
    if (counted_q) begin
      half_q      <= half;
      tern5_sum_q <= tern5_q;
    end
  end

  always_comb begin
    half = '0;
    for (int p = 0; p < PARTS; p++) begin
      half[p*HALVES/PARTS*9 +: 9] = half[p*HALVES/PARTS*9 +: 9] + 9'(part_q[p*PART_W +: PART_W]);
    end
    sum = 9'd0;
    for (int h = 0; h < HALVES; h++) sum = sum + half_q[h*9 +: 9];
  end

  assign count = !summed_q ? 9'd0 : tern5_sum_q ? sum * 9'(DIGITS) : sum;
endmodule

`default_nettype wire
