// SPDX-License-Identifier: Apache-2.0
// Bench of test_mapped_netlist.py: a slice of the low-bit datapath as RTL and as the netlist that
// yosys mapped it to, side by side. Phases of 12 clocks add, or read: a line is read within the
// last six of a phase that reads. `vote` is of any count, `threshold` of what some nets reach.
module bench #(parameter int W = 64, CNT_W = 8, SUMS = 0, CLOCKS = 1500);
  logic clk = 0;
  logic adds, ternary, ones, vote, sum, wide, codes_signed, bytes, tie_minus, reads;
  logic [2:0] plane;
  logic [6:0] contributions;
  logic [7:0] threshold;
  logic [W-1:0] data, line, mapped_line;
  logic [CNT_W*W-1:0] planes, counted, mapped_counted;
  logic [8:0] illegal_count, mapped_count;
  logic saturated, mapped_saturated, illegal, mapped_illegal;
  int lines = 0, ones_seen = 0, lost = 0;

  nf_low_bit_path #(.CNT_W(CNT_W), .SUMS(SUMS)) rtl (
    .clk, .rst_n (1'b1), .adds, .ternary, .ones, .vote, .sum, .wide, .codes_signed, .bytes, .plane,
    .contributions, .tie_minus, .threshold, .data, .planes, .planes_q (counted), .line_q (line),
    .saturated_q (saturated), .illegal_q (illegal), .count_q (illegal_count));
  nf_mapped mapped (
    .clk, .rst_n (1'b1), .adds, .ternary, .ones, .vote, .sum, .wide, .codes_signed, .bytes, .plane,
    .contributions, .tie_minus, .threshold, .data, .planes, .planes_q (mapped_counted),
    .line_q (mapped_line), .saturated_q (mapped_saturated), .illegal_q (mapped_illegal),
    .count_q (mapped_count));

  initial begin
    for (int k = 0; k < CLOCKS; k++) begin
      adds = (k / 12) % 2 == 0;
      {vote, tie_minus, ternary, codes_signed, bytes} = $urandom;
      wide = !bytes && $urandom;
      ones = !ternary && $urandom;
      sum  = !adds && ($urandom % 3 == 0);
      plane = $urandom % (CNT_W < 7 ? CNT_W : 7);
      contributions = $urandom % 65;
      threshold = 1 + $urandom % (2 << ($urandom % CNT_W));
      for (int i = 0; i < W; i++) data[i] = $urandom;
      planes = '0;
      for (int i = 0; i < (CNT_W < 7 ? CNT_W : 7) * W; i++) planes[i] = $urandom % 8 > k % 9;
      #1 clk = 1;
      #1 clk = 0;
      if (k > 12) begin
        if (counted !== mapped_counted) begin $display("counts differ"); $finish; end
        if (saturated !== mapped_saturated) begin $display("saturated differs"); $finish; end
        if (illegal !== mapped_illegal) begin $display("illegal codes differ"); $finish; end
        if (illegal_count !== mapped_count) begin $display("counts of them differ"); $finish; end
        if (k % 24 > 18 && line !== mapped_line) begin $display("lines differ"); $finish; end
        if (k % 24 > 18) begin lines++; ones_seen += line[0]; end
        lost += saturated;
      end
    end
    $display("%0d lines, %0d with a one in front, %0d saturated", lines, ones_seen, lost);
  end
endmodule
