// SPDX-License-Identifier: Apache-2.0
// nf_evict: an evicted line leaves once, as one burst of its bookkeeping and the planes that it
// needs, unchanged, after the lines that were pushed before it; if it opens its group, zeros for
// all records of the group leave first; and it is seen until memory has answered. One of the lines
// that are pushed is chosen freely. Four lines in two groups, two planes; memory answers in order.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_evict
  import nf_pkg::*;
  import nf_core_pkg::*;
  import nf_ram_pkg::*;
(
  input wire logic                clk,
  input wire logic                push,
  input wire logic [1:0]          index,    // line that is pushed
  input wire logic [1:0]          worker,   // bit of its bitmap that is set, if `some`
  input wire logic                some,
  input wire logic [1:0]          bits,     // of its planes, each at every place
  input wire logic [1:0]          needs,    // planes that it needs, a clock later
  input wire logic                choose,   // it is the chosen one
  input wire logic                fresh,
  input wire logic                first,
  input wire logic                head_waits,
  input wire logic                ready,
  input wire logic                answer,
  input wire logic [1:0]          asked     // line that a fill looks for
);
  localparam int PLANES = 2;

  region_desc_t       d;
  logic [DESCS_W-1:0] desc;
  ram_flip_t          no_flip;
  ram_fault_t         ram_fault;
  book_t              book;
  line_id_t           line, head;
  logic [1:0]         count, flight;
  logic               idle, match, wr_valid, wr_ready, wr_poison, wr_last, failed, b_valid;
  logic               counted_q;
  logic [LADDR_W-1:0] wr_addr;
  logic [7:0]         wr_len;
  logic [LINE_W-1:0]  wr_data;
  logic [3:0]         failed_region;
  logic [REC_GEN_W-1:0] gen;
  logic [PLANES*LINE_W-1:0] data;

  `NF_FORMAL_RESET

  assign no_flip = '0;
  assign data    = {{LINE_W{bits[1]}}, {LINE_W{bits[0]}}};
  assign gen     = REC_GEN_W'(5);
  assign line    = make_line_id(4'd0, INDEX_W'(index));
  assign book    = make_book(1'b0, 1'b0, some ? 64'd1 << worker : 64'd0);

  always_comb begin
    d            = '0;
    d.mode       = MODE_G_BINARY;
    d.lines_log2 = 6'd2;
    d.workers    = 8'd3;
    desc         = DESCS_W'(d);
  end

  logic [3:0] under_way_q;  // bursts that memory has not answered
  logic       some_q, offered_q;

  assign wr_ready = wr_valid && ready;
  assign b_valid  = answer && under_way_q != '0;

  nf_evict #(
    .REGIONS(1), .CNT_W(PLANES), .DEPTH(2), .FLIGHT(3), .ECC(0), .MARKS_LOG2(1), .MEM_LINES_LOG2(4)
  ) dut (
    .clk, .rst_n, .ram_flip(no_flip), .ram_fault, .desc, .gen, .push, .push_line(line),
    .push_book(book), .push_kept(1'b0), .push_planes(data), .push_check(PLANES'(0)),
    .counted(counted_q),
    .counted_planes(4'(needs)), .fresh, .first, .count, .flight, .settle(4'd0), .idle,
    .match_line(make_line_id(4'd0, INDEX_W'(asked))), .match, .head, .head_waits, .wr_valid,
    .wr_ready, .wr_addr, .wr_len, .wr_data, .wr_poison, .wr_last, .b_valid, .b_err(1'b0), .failed,
    .failed_region
  );

  // ---- what surrounds it: room, one line once, a count of planes a clock after each line --------
  `NF_ASSUME(Empty_M, dut.emptied_q || (!push && bits == '0))
  `NF_ASSUME(Room_M, !push || (count != 2'd2 && flight != 2'd3))
  `NF_ASSUME(Once_M, !push || dut.again == '0)
  `NF_ASSUME(Needs_M, 32'(needs) <= PLANES && (some_q || needs == '0))
  `NF_ASSUME(HeadWaits_M, !head_waits || !offered_q)

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      counted_q   <= 1'b0;
      under_way_q <= '0;
      offered_q   <= 1'b0;
    end else begin
      counted_q   <= push;
      under_way_q <= under_way_q + 4'(wr_ready && wr_last) - 4'(b_valid);
      offered_q   <= wr_valid && !(wr_ready && wr_last);
    end
  end

  always_ff @(posedge clk) some_q <= some;

  // ---- the chosen line --------------------------------------------------------------------------
  typedef enum logic [1:0] {NONE, HELD, SENT, DONE} place_e;
  place_e              place_q;
  logic [2:0]          ahead_q;  // lines that leave before it
  logic [3:0]          left_q;   // answers until its own
  logic [1:0]          index_q, needs_q, zeros_q, beat_q;
  book_t               book_q;
  logic [2*LINE_W-1:0] data_q;
  logic                known_q, late_q, fresh_q, opens_q, whole, turn, zeroing;
  logic [INDEX_W-1:0]  at;

  assign turn    = place_q == HELD && ahead_q == '0 && known_q;
  assign zeroing = opens_q && zeros_q != 2'd2;
  assign at      = zeroing ? INDEX_W'({index_q[1], zeros_q[0]}) : INDEX_W'(index_q);
  // A line leaves with its last burst. Of the lines before the chosen one the module itself says
  // which bursts are zeros.
  assign whole   = wr_ready && wr_last && !dut.zeroing;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      place_q <= NONE;
      ahead_q <= '0;
      left_q  <= '0;
      known_q <= 1'b0;
      late_q  <= 1'b0;
      fresh_q <= 1'b0;
      opens_q <= 1'b0;
      zeros_q <= '0;
      beat_q  <= '0;
    end else begin
      if (push && choose && place_q == NONE) begin
        place_q <= HELD;
        ahead_q <= 3'(count) - 3'(whole);
      end else if (place_q == HELD && ahead_q != '0 && whole) ahead_q <= ahead_q - 3'd1;
      late_q  <= push && choose && place_q == NONE;  // its planes come in this clock
      fresh_q <= late_q && fresh;
      if (late_q && !fresh) known_q <= 1'b1;
      if (fresh_q) known_q <= 1'b1;
      if (fresh_q && first) opens_q <= 1'b1;
      if (turn && wr_ready) begin
        if (zeroing) zeros_q <= zeros_q + 2'd1;
        else         beat_q  <= beat_q + 2'd1;
        if (!zeroing && beat_q == needs_q) begin
          place_q <= SENT;
          left_q  <= under_way_q + 4'd1 - 4'(b_valid);
        end
      end
      if (place_q == SENT && b_valid) begin
        left_q <= left_q - 4'd1;
        if (left_q == 4'd1) place_q <= DONE;
      end
    end
  end

  always_ff @(posedge clk) begin
    if (push && choose && place_q == NONE) begin
      index_q <= index;
      book_q  <= book;
      data_q  <= data;
    end
    if (late_q) needs_q <= needs;
  end

  logic               seen;  // it is under way
  logic [LINE_W-1:0]  beat;
  logic [1:0]         group;  // lines that are taken for it
  record_t            record;
  assign record = make_record(1'b0, gen, book_q);
  assign seen  = place_q == HELD || place_q == SENT;
  assign beat  = zeroing ? '0 : (beat_q == '0) ? LINE_W'(record)
                 : (beat_q == 2'd1) ? data_q[LINE_W-1:0] : data_q[LINE_W +: LINE_W];
  assign group = opens_q ? 2'b10 : 2'b11;

  `NF_ASSERT_NEVER(NotOffered_A, turn && !head_waits && !wr_valid)
  `NF_ASSERT_NEVER(Waits_A, head_waits && wr_valid)
  `NF_ASSERT_NEVER(Head_A, turn && head != make_line_id(4'd0, INDEX_W'(index_q)))
  `NF_ASSERT_NEVER(Place_A, turn && wr_valid && wr_addr != LADDR_W'(record_addr(d, at, 4'(PLANES))))
  `NF_ASSERT_NEVER(Length_A, turn && wr_valid && wr_len != (zeroing ? 8'd0 : 8'(needs_q)))
  `NF_ASSERT_NEVER(Last_A, turn && wr_valid && wr_last != (zeroing || beat_q == needs_q))
  `NF_ASSERT_NEVER(Data_A, turn && wr_valid && (wr_data != beat || wr_poison))
  `NF_ASSERT_NEVER(Unseen_A, seen && (asked & group) == (index_q & group) && !match)
  `NF_ASSERT_NEVER(Idle_A, seen && idle)
  `NF_ASSERT_NEVER(Held_A, place_q == HELD && count == '0)
  `NF_ASSERT_NEVER(Flight_A, seen && flight == '0)
  `NF_ASSERT_NEVER(Failed_A, failed || ram_fault.bad)

  `NF_COVER(Done_C, place_q == DONE && opens_q && needs_q == 2'd2)
  `NF_COVER(Second_C, turn && wr_valid && under_way_q != '0)
  `NF_COVER(Quiet_C, place_q == DONE && idle)
endmodule

`default_nettype wire
