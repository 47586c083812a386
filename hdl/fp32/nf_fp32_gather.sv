// SPDX-License-Identifier: Apache-2.0
// Ordered FP32 gather: reads the present workers' lines in worker order and adds them.
//
// The reads of several requests may be under way at once; they share one AXI ID, so the lines
// arrive in the order asked. The first line of a sum is taken as it is (a NaN made canonical), each
// further one is added: 16 lanes, two clocks a line. RAW passes one line byte for byte. Nothing
// present gives zeros. A read error gives all ones with Poison; a line that memory marks as
// poisoned is passed or added as it is, and the answer carries Poison.

`default_nettype none
`include "nf_assert.svh"

module nf_fp32_gather
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
  parameter int TRACK = 64  // lines under way
) (
  input  wire logic               clk,
  input  wire logic               rst_n,
  input  wire logic [DESCS_W-1:0] desc,

  input  wire logic               op_valid,
  output logic                    op_ready,
  input  wire gather_op_t         op,

  output logic                    ar_valid,
  input  wire logic               ar_ready,
  output logic [LADDR_W-1:0]      ar_addr,
  input  wire logic               r_valid,
  output logic                    r_ready,
  input  wire read_beat_t         r_beat,

  output logic                    drs_valid,
  input  wire logic               drs_ready,
  output answer_t                 drs,

  output logic                    done,  // the last line of a request is in
  output logic [7:0]              done_slot
);
  localparam int TRACK_W = $bits(resp_meta_t) + 8 + 5;

  // ---- asking: one AR for each worker present, lowest first -------------------------------------
  logic [63:0]  asked_q, todo, lowest;
  logic [5:0]   worker;
  logic [LADDR_W-1:0] index;
  logic         none, last_ask, track_ready, ask;
  region_desc_t d;

  assign d        = desc_of(desc, op.meta.region);
  assign todo     = op.bitmap & ~asked_q;
  assign lowest   = todo & (~todo + 64'd1);
  assign none     = (op.bitmap == '0);
  assign last_ask = (todo == lowest);

  always_comb begin
    worker = '0;
    for (int w = 0; w < 64; w++) begin
      if (lowest[w]) worker = worker | 6'(w);
    end
  end

  assign ar_valid = op_valid && !none && track_ready;
  assign ar_addr  = d.state_base + (LADDR_W'(worker) << d.lines_log2) + index;
  assign index    = {8'd0, op.index};
  assign ask      = op_valid && track_ready && (none || ar_ready);
  assign op_ready = ask && last_ask;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) asked_q <= '0;
    else if (ask) asked_q <= last_ask ? '0 : (asked_q | lowest);
  end

  // ---- lines under way --------------------------------------------------------------------------
  logic       t_valid, t_pop, t_none, t_first, t_last, t_raw, t_poison;
  resp_meta_t t_meta;

  /* verilator lint_off PINCONNECTEMPTY */
  nf_fifo #(.WIDTH(TRACK_W), .DEPTH(TRACK)) u_track (
    .clk, .rst_n,
    .in_valid (ask), .in_ready (track_ready),
    .in_data  ({op.meta, op.slot, none, asked_q == '0, last_ask, op.raw, op.poison}),
    .out_valid (t_valid), .out_ready (t_pop),
    .out_data ({t_meta, done_slot, t_none, t_first, t_last, t_raw, t_poison}),
    .count ()
  );
  /* verilator lint_on PINCONNECTEMPTY */

  // ---- adding -----------------------------------------------------------------------------------
  logic              line_valid, adding_q, add_last_q, add_start, take;
  logic              full_q, bad_q, poison_q;
  resp_meta_t        meta_q;
  logic [LINE_W-1:0] acc_q, sum, first_line, line_in;

  // A line is taken when the adder is free and the last result has left.
  assign line_valid = t_valid && (t_none || r_valid);
  assign take       = line_valid && !adding_q && (!full_q || drs_ready);
  assign t_pop      = take;
  assign done       = take && t_last;
  assign r_ready    = take && !t_none;
  assign add_start  = take && !t_none && !t_first;

  // The adders see only lines of this unit, not every beat of the shared read channel.
  assign line_in = r_valid ? r_beat.data : '0;

  always_comb begin
    first_line = line_in;
    for (int l = 0; l < 16; l++) begin
      if (!t_raw && (line_in[l*32+23 +: 8] == 8'hFF) && (line_in[l*32 +: 23] != '0))
        first_line[l*32 +: 32] = 32'h7FC0_0000;
    end
  end

  for (genvar l = 0; l < 16; l++) begin : g_lane
    logic [31:0] in;
    assign in = line_in[l*32 +: 32];
    nf_fp32_add u_add (
      .clk,
      .en  (add_start),
      .a   (acc_q[l*32 +: 32]),
      .b   (in),
      .sum (sum[l*32 +: 32])
    );
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      adding_q <= 1'b0;
      full_q   <= 1'b0;
    end else begin
      adding_q <= add_start;
      if ((take && t_last && !add_start) || (adding_q && add_last_q)) full_q <= 1'b1;
      else if (drs_ready) full_q <= 1'b0;
    end
  end

  always_ff @(posedge clk) begin
    if (take) begin
      meta_q     <= t_meta;
      add_last_q <= t_last;
      bad_q      <= (!t_first && bad_q) || (!t_none && r_beat.err);
      poison_q   <= t_poison || (!t_first && poison_q) || (!t_none && r_beat.poison);
    end
    if (adding_q) acc_q <= sum;
    else if (take) acc_q <= t_none ? '0 : first_line;
  end

  assign drs_valid = full_q;
  assign drs       = make_answer(meta_q, poison_q || bad_q, bad_q ? '1 : acc_q);

  `NF_ASSERT_NEVER(AddersAwake_A, !r_valid && line_in != '0)
  `NF_ASSERT(OutStable_A, (drs_valid && !drs_ready) |=> drs_valid && $stable(drs))
endmodule

`default_nettype wire
