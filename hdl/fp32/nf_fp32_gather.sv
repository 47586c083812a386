// SPDX-License-Identifier: Apache-2.0
// Ordered FP32 gather: reads the present workers' lines in worker order and adds them.
//
// Two sums are asked for at a time, a line of each in turn, so that the adder, whose result comes
// two clocks after its operands, takes a line every clock. A sum that is alone asks every other
// clock, but for its first line, which is not added: its lines never wait on the read channel that
// others share. All reads share one AXI ID,
// so the lines arrive in the order asked. The first line of a sum is taken as it is (a NaN made
// canonical), each further one is added: 16 lanes. RAW passes one line byte for byte. Nothing
// present gives zeros. A read error gives all ones with Poison; a line that memory marks as
// poisoned is passed or added as it is, and the answer carries Poison.
//
// `end_*` reports, valid/ready, that a request has read all its lines, and returns the sum where
// it was asked to be kept (`keep`) and no line came with an error or poison.

`default_nettype none
`include "nf_assert.svh"
`include "nf_operand_isolation.svh"

module nf_fp32_gather
  import nf_pkg::*;
  import nf_core_pkg::*;
  import nf_fp32_pkg::*;
#(
  parameter int MEM_LINES_LOG2 = LADDR_W,
  parameter int TRACK = 512  // lines under way: as many as cover the latency of memory
) (
  input  wire logic               clk,    // clock, rising edge
  input  wire logic               rst_n,  // asynchronous reset, active low
  input  wire logic [DESCS_W-1:0] desc,   // active descriptors of all regions

  input  wire logic               op_valid,  // operation valid
  output logic                    op_ready,  // operation taken
  input  wire gather_op_t         op,        // line, workers present, and whether to keep the sum

  output logic                    ar_valid,  // read request valid
  input  wire logic               ar_ready,  // read request taken
  output logic [LADDR_W-1:0]      ar_addr,   // line address of the read
  input  wire logic               r_valid,   // read beat valid
  output logic                    r_ready,   // read beat taken
  input  wire read_beat_t         r_beat,    // read beat

  output logic                    drs_valid,  // answer with data valid
  input  wire logic               drs_ready,  // answer with data taken
  output answer_t                 drs,        // answer with data

  output logic                    end_valid,  // a request has read all its lines
  input  wire logic               end_ready,  // that is taken
  output gather_end_t             gather_end  // its pin, and the sum to keep
);
  localparam int TRACK_W   = $bits(resp_meta_t) + 8 + 7;
  localparam int OUT_DEPTH = 4;

  // ---- asking: one AR for each worker present, lowest first; the two sides take turns -----------
  logic [$bits(gather_op_t)-1:0] op_q [2];
  logic [1:0]         busy_q, started_q;
  logic               direct, side, last_side_q, added_q, load, load_side;
  gather_op_t         now, left;  // what is left of a sum when its lowest line was asked for
  logic [63:0]        todo, lowest;
  logic [5:0]         worker;
  logic [LADDR_W-1:0] index, target;
  logic               turn, none, last_ask, track_ready, ask;
  region_desc_t       d;

  // A sum that finds both sides free asks for its first line at once.
  assign direct   = op_valid && (busy_q == '0);
  assign side     = last_side_q ^ (direct || busy_q[!last_side_q]);
  assign turn     = direct || (busy_q[side] && (side != last_side_q || !added_q));
  assign now      = direct ? op : op_q[side];
  assign d        = desc_of(desc, now.meta.region);
  assign todo     = now.bitmap;
  assign lowest   = todo & (~todo + 64'd1);
  assign none     = (todo == '0);
  assign last_ask = (todo == lowest);

  // The number of the one bit of `lowest`: each bit of it is the OR of half of the workers.
  assign worker = {|(lowest & 64'hFFFF_FFFF_0000_0000), |(lowest & 64'hFFFF_0000_FFFF_0000),
                   |(lowest & 64'hFF00_FF00_FF00_FF00), |(lowest & 64'hF0F0_F0F0_F0F0_F0F0),
                   |(lowest & 64'hCCCC_CCCC_CCCC_CCCC), |(lowest & 64'hAAAA_AAAA_AAAA_AAAA)};

  always_comb begin
    left        = now;
    left.bitmap = todo & ~lowest;
  end

  assign ar_valid = turn && !none && track_ready;
  assign target   = d.state_base + (LADDR_W'(worker) << d.lines_log2) + index;
  assign ar_addr  = LADDR_W'(target[MEM_LINES_LOG2-1:0]);  // memory has no more lines
  assign index    = {8'd0, now.index};
  assign ask      = turn && track_ready && (none || ar_ready);

  // The next sum goes to the side whose turn comes next: the free one, or of two the other one.
  assign load_side = direct ? side : !side;
  assign op_ready  = !(&busy_q);
  assign load      = op_valid && op_ready && !(direct && ask);

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      busy_q      <= '0;
      started_q   <= '0;
      last_side_q <= 1'b0;
    end else begin
      if (ask) begin
        last_side_q     <= side;
        busy_q[side]    <= !last_ask;
        started_q[side] <= !last_ask;
      end
      if (load) busy_q[load_side] <= 1'b1;
    end
  end

  always_ff @(posedge clk) begin
    added_q <= ask && started_q[side];  // asked for in the last clock, and to be added
    if (ask) op_q[side] <= left;
    if (load) op_q[load_side] <= op;
  end

  // ---- lines under way --------------------------------------------------------------------------
  logic       t_valid, t_none, t_first, t_last, t_raw, t_poison, t_keep, t_side, take;
  logic [7:0] t_pin;
  resp_meta_t t_meta;

  /* verilator lint_off PINCONNECTEMPTY */
  nf_fifo #(.WIDTH(TRACK_W), .DEPTH(TRACK), .BLOCK(1)) u_track (
    .clk, .rst_n,
    .in_valid (ask), .in_ready (track_ready),
    .in_data  ({now.meta, now.pin, none, !started_q[side], last_ask, now.raw, now.poison,
                 now.keep, side}),
    .out_valid (t_valid), .out_ready (take),
    .out_data ({t_meta, t_pin, t_none, t_first, t_last, t_raw, t_poison, t_keep, t_side}),
    .count ()
  );
  /* verilator lint_on PINCONNECTEMPTY */

  // ---- adding -----------------------------------------------------------------------------------
  // A line is taken in one clock; its sum, or the line itself, is in the accumulator of its side
  // from the clock after the next. Between them `adding_q` says that it is in the adder.
  logic              line_valid, add_start, room;
  logic              taken_q, adding_q, side_q, last_q, keep_q, finished;
  logic [7:0]        pin_q;
  logic [1:0]        bad_q, poison_q;
  logic              bad, poison;
  resp_meta_t        meta_q;
  logic [LINE_W-1:0] acc_q [2];
  logic [LINE_W-1:0] acc, sum, first_line, line_in, result;

  assign line_valid = t_valid && (t_none || r_valid);
  assign take       = line_valid && !(adding_q && side_q == t_side) && (!t_last || room);
  assign r_ready    = take && !t_none;
  assign add_start  = take && !t_none && !t_first;
  assign bad        = (!t_first && bad_q[t_side]) || (!t_none && r_beat.err);
  assign poison     = t_poison || (!t_first && poison_q[t_side]) || (!t_none && r_beat.poison);

  // The adders see only lines of this unit, not every beat of the shared read channel.
  assign line_in = `NF_ISOLATE(r_valid) ? r_beat.data : '0;
  assign acc     = acc_q[t_side];

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
      .a   (acc[l*32 +: 32]),
      .b   (in),
      .sum (sum[l*32 +: 32])
    );
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      taken_q  <= 1'b0;
      adding_q <= 1'b0;
    end else begin
      taken_q  <= take;
      adding_q <= add_start;
    end
  end

  always_ff @(posedge clk) begin
    if (take) begin
      side_q           <= t_side;
      last_q           <= t_last;
      meta_q           <= t_meta;
      pin_q           <= t_pin;
      keep_q           <= t_keep;
      bad_q[t_side]    <= bad;
      poison_q[t_side] <= poison;
    end
    if (adding_q) acc_q[side_q] <= sum;
    if (take && (t_none || t_first)) acc_q[t_side] <= t_none ? '0 : first_line;
  end

  // ---- answers ----------------------------------------------------------------------------------
  // The answer and the end of a request leave side by side, each when it can: at once, or from the
  // queue.
  localparam int OUT_W = $bits(answer_t) + 9;
  logic [$clog2(OUT_DEPTH+1)-1:0] out_count;
  logic [OUT_W-1:0]               out_new, out_head;
  logic                           out_ready, out_valid, out_pop, poisoned, answered_q, ended_q;

  assign finished = taken_q && last_q;
  assign poisoned = poison_q[side_q] || bad_q[side_q];
  assign result   = bad_q[side_q] ? '1 : adding_q ? sum : acc_q[side_q];
  assign room     = (32'(out_count) + 32'(finished) < OUT_DEPTH);
  assign out_new  = {make_answer(meta_q, poisoned, result), pin_q, keep_q && !poisoned};

  nf_fifo #(.WIDTH(OUT_W), .DEPTH(OUT_DEPTH)) u_out (
    .clk, .rst_n,
    .in_valid (finished && (out_valid || !out_pop)), .in_ready (out_ready),
    .in_data (out_new),
    .out_valid, .out_ready (out_pop),
    .out_data (out_head), .count (out_count)
  );

  assign {drs, gather_end.pin, gather_end.keep} = out_valid ? out_head : out_new;
  assign gather_end.sum = drs.data;
  assign drs_valid      = (out_valid || finished) && !answered_q;
  assign end_valid      = (out_valid || finished) && !ended_q;
  assign out_pop        = (out_valid || finished) && (answered_q || drs_ready)
                          && (ended_q || end_ready);

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      answered_q <= 1'b0;
      ended_q    <= 1'b0;
    end else begin
      answered_q <= !out_pop && (answered_q || (drs_valid && drs_ready));
      ended_q    <= !out_pop && (ended_q || (end_valid && end_ready));
    end
  end

  `NF_ASSERT_NEVER(OutOfMemory_A, ar_valid && ar_addr != target)
  `NF_ASSERT_NEVER(LoadBusy_A, load && busy_q[load_side])
  `NF_ASSERT_NEVER(SumIdle_A, !adding_q && sum != '0)
  `NF_ASSERT_NEVER(AddersAwake_A, !r_valid && line_in != '0)
  `NF_ASSERT_KEEPS(OutStable_A, drs_valid && !drs_ready, {drs_valid, drs})
  `NF_ASSERT_KEEPS(EndStable_A, end_valid && !end_ready, {end_valid, gather_end})
  `NF_ASSERT_NEVER(KeepPoison_A, end_valid && gather_end.keep && drs_valid && drs.poison)
  `NF_ASSERT_NEVER(OutRoom_A, finished && !out_ready)
  `NF_ASSERT_NEVER(LoneSumSpaced_A, ask && added_q && side == last_side_q)
  `NF_ASSERT_NEVER(SidesApart_A, take && adding_q && t_side == side_q)
endmodule

`default_nettype wire
