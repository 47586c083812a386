// SPDX-License-Identifier: Apache-2.0
// Dirty victims on their way from a slot to their record, until their line is marked (nf_written)
// and the eviction buffer knows how long the record is (nf_evict).
//
// `leaves0..2`: the victim of the action in that stage is dirty. It is chosen in S0 and pushed into
// the eviction buffer in S2; a clock after S2 the planes that its record needs are known:
// `counted`, `line3`, `planes3`. `count` is the number of victims in S1 and S2. `look_leaves`: the
// line that is looked up is a victim in S0 to S2, and its mark is still to be written.
// `fill_leaves`: the line that is to be filled is a victim that has not reached the eviction
// buffer.

`default_nettype none

module nf_leaving
  import nf_core_pkg::*;
#(
  parameter int CNT_W = 8,
  parameter int KEY_W = 19  // index bits that can differ between two lines
) (
  input  wire logic        clk,    // clock, rising edge
  input  wire logic        rst_n,  // asynchronous reset, active low

  input  wire logic        leaves0,  // a dirty victim is in S0
  input  wire line_id_t    victim0,  // that line
  input  wire logic        leaves1,  // a dirty victim is in S1
  input  wire line_id_t    victim1,  // that line
  input  wire logic        leaves2,  // a dirty victim is in S2
  input  wire line_id_t    victim2,  // that line
  input  wire logic [6:0]  seen2,   // workers of the victim
  input  wire logic        twice2,  // each adds up to two

  input  wire line_id_t    look_line,    // line that is looked up
  output logic             look_leaves,  // it is on its way out
  input  wire line_id_t    fill_line,    // line that is to be filled
  output logic             fill_leaves,  // it is on its way out
  output logic [1:0]       count,        // victims in S1 and S2

  output logic             counted,  // the planes of `line3` are known
  output line_id_t         line3,    // victim of the cycle before in S2
  output logic [3:0]       planes3   // planes that its record needs
);
  logic       twice_q;
  logic [6:0] seen_q;

  assign fill_leaves = (leaves1 && victim1 == fill_line) || (leaves2 && victim2 == fill_line);
  assign look_leaves = (leaves0 && victim0 == look_line) || (leaves1 && victim1 == look_line)
                       || (leaves2 && victim2 == look_line);
  assign count       = 2'(leaves1) + 2'(leaves2);

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) counted <= 1'b0;
    else        counted <= leaves2;
  end

  always_ff @(posedge clk) begin
    if (leaves2) begin
      line3   <= short_line(victim2, KEY_W);
      seen_q  <= seen2;
      twice_q <= twice2;
    end
  end

  assign planes3 = planes_in_use(seen_q, twice_q, 4'(CNT_W));
endmodule

`default_nettype wire
