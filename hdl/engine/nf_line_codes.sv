// SPDX-License-Identifier: Apache-2.0
// What the codes of a line say, one clock behind its bytes: the elements of G_TERN5, and how many
// codes are illegal.
//
// A line is decoded while its state is checked (S1): `take` is the clock in which its operation
// enters S2, and outputs belong to the line that was taken last. Illegal codes are counted over
// two clocks, in groups ahead of the register and all of them behind it: in one clock they were
// the longest path of the low-bit datapath.

`default_nettype none

module nf_line_codes
  import nf_pkg::*;
  import nf_tern5_pkg::*;
#(
  parameter int TERN5 = 0
) (
  input  wire logic              clk,
  input  wire logic              take,
  input  wire logic [LINE_W-1:0] data,
  output trits_t                 trits,
  output logic [8:0]             illegal,       // elements of code 01, if the line is G_TERNARY
  output logic [8:0]             illegal_tern5  // elements of illegal bytes, if it is G_TERN5
);
  localparam int CODES   = LINE_W / 2;
  localparam int GROUP   = 16;  // codes
  localparam int GROUPS  = CODES / GROUP;
  localparam int COUNT_W = 5;

  if (CODES % GROUP != 0) begin : g_bad_group
    initial $fatal(1, "nf_line_codes: a line must be whole groups of codes");
  end

  // ---- G_TERNARY --------------------------------------------------------------------------------
  logic [CODES-1:0]          bad;
  logic [GROUPS*COUNT_W-1:0] count, count_q;

  for (genvar e = 0; e < CODES; e++) begin : g_bad
    assign bad[e] = data[2*e +: 2] == 2'b01;
  end

  for (genvar g = 0; g < GROUPS; g++) begin : g_count
    assign count[g*COUNT_W +: COUNT_W] = COUNT_W'($countones(bad[g*GROUP +: GROUP]));
  end

  always_ff @(posedge clk) begin
    if (take) count_q <= count;
  end

  always_comb begin
    illegal = 9'd0;
    for (int g = 0; g < GROUPS; g++) illegal = illegal + 9'(count_q[g*COUNT_W +: COUNT_W]);
  end

  // ---- G_TERN5 ----------------------------------------------------------------------------------
  if (TERN5 != 0) begin : g_tern5
    logic [BYTES-1:0] bad_bytes, bad_bytes_q;

    nf_tern5_decode u_decode (.clk, .take, .data, .trits);

    for (genvar j = 0; j < BYTES; j++) begin : g_bad_byte
      assign bad_bytes[j] = is_illegal(data[8*j +: 8]);
    end

    always_ff @(posedge clk) begin
      if (take) bad_bytes_q <= bad_bytes;
    end

    assign illegal_tern5 = 9'($countones(bad_bytes_q)) * 9'(DIGITS);
  end else begin : g_no_tern5
    assign trits         = '0;
    assign illegal_tern5 = 9'd0;
  end
endmodule

`default_nettype wire
