// SPDX-License-Identifier: Apache-2.0
// Overwrites the bookkeeping lines of a newly claimed state area with empty records.
//
// `start[r]` (with the commit) queues region r, `fresh[r]` says that it is not finished. The lines
// that share a mark of nf_written are a group: the initialiser walks through the groups in their
// order, reads the mark of each (`probe_*`), and overwrites those without one. A mark tells that an
// eviction came first: nf_evict has overwritten the group, or will. So no eviction waits for the
// walk, but for the groups that are being overwritten and whose writes memory has not answered:
// `a_waits`, `b_waits`. `c_ahead`: the group of a line has not been reached.
//
// A line without a mark is never fetched (nf_lookup), so what memory holds in a group that neither
// the walk nor an eviction has overwritten is never taken for state.
//
// `cancel[r]` (the region became IDENTITY) ends it. `hold` pauses it; `busy_writes` says that
// writes are under way. It gives way to other writes (`others`), but not for more than PATIENCE
// clocks on end. A write that fails makes the region untrusted until its next commit: what its
// records hold is unknown, so nothing read from them may be taken for state.

`default_nettype none
`include "nf_assert.svh"

module nf_record_init
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
  parameter int REGIONS    = 8,
  parameter int CNT_W      = 8,
  parameter int MARKS_LOG2 = 12,
  parameter int MEM_LINES_LOG2 = 20,
  parameter int GROUPS     = 64,  // groups that are decided and not answered
  parameter int PATIENCE   = 7
) (
  input  wire logic               clk,    // clock, rising edge
  input  wire logic               rst_n,  // asynchronous reset, active low

  input  wire logic               hold,           // pause: let nothing new in
  input  wire logic               others,         // other writes wait
  input  wire logic [REGIONS-1:0] start,          // queue the state area of a region
  input  wire logic [REGIONS-1:0] cancel,         // end it
  input  wire logic [DESCS_W-1:0] desc,           // active descriptors
  output logic [REGIONS-1:0]      fresh,          // regions that are not finished
  output logic                    busy,           // some region is not finished
  output logic                    busy_writes,    // writes are under way
  output logic                    failed,         // pulse: memory refused a write
  output logic [3:0]              region,         // region in work

  // Lookups: the fill unit and the eviction unit ask about a line, and a line gets a mark.
  input  wire line_id_t           a,        // line of the fill unit
  output logic                    a_waits,  // its group is being overwritten
  input  wire line_id_t           b,        // line of the eviction unit
  output logic                    b_waits,  // its group is being overwritten
  input  wire line_id_t           c,        // line that is marked
  output logic                    c_ahead,  // its group has not been reached

  // Marks of groups (nf_written).
  output logic                    probe,         // read the mark of a group
  input  wire logic               probe_ready,   // it is read
  output line_id_t                probe_line,    // first line of the group
  input  wire logic               probe_marked,  // in the next clock: it has a mark

  // Single-line writes of zeros.
  output logic                    wr_valid,  // write beat valid
  input  wire logic               wr_ready,  // write beat taken
  output logic [LADDR_W-1:0]      wr_addr,   // line address of the write
  input  wire logic               b_valid,   // memory has answered the oldest write
  input  wire logic               b_err      // it refused that write
);
  localparam int PTR_W      = $clog2(GROUPS);
  localparam int PATIENCE_W = $clog2(PATIENCE + 1);
  // Memory has more lines than a region whose records it holds: the low bits of an index
  // tell its lines apart.
  localparam int KEY_W      = (MEM_LINES_LOG2 < INDEX_W) ? MEM_LINES_LOG2 : INDEX_W;

  if (GROUPS < 2 || (1 << PTR_W) != GROUPS) begin : g_bad_groups
    initial $fatal(1, "nf_record_init: GROUPS must be a power of two, at least 2");
  end

  logic [REGIONS-1:0] pending_q, lowest, active;
  logic               active_q, restart;
  logic [3:0]         region_q, lowest_region;
  region_desc_t       d;
  logic [KEY_W:0]     lines, group;
  // Lines below `passed` are overwritten, below `next` sent, below `judged` decided, below `ahead`
  // asked about.
  logic [KEY_W:0]     passed_q, next_q, judged_q, ahead_q;
  logic [KEY_W:0]     flight_q, answers_q;  // writes not answered; answered ones not yet passed
  logic               probed_q;             // the mark of the last group comes
  logic [GROUPS-1:0]  marked_q;             // of the groups that are decided and not passed
  logic [PTR_W:0]     push_q, pop_q;
  logic               front_marked, pass, decided, last_write, takes;
  logic [MADDR_W-1:0] target;  // of the write: in memory

  assign d          = desc_of(desc, region_q);
  assign lines      = (KEY_W+1)'(1) << d.lines_log2;
  assign group      = (KEY_W+1)'(1) << group_log2(d, 6'(MARKS_LOG2));
  assign restart    = active_q && (start[32'(region_q) % REGIONS]
                                   || cancel[32'(region_q) % REGIONS]);

  // ---- one group after the other ----------------------------------------------------------------
  logic [PATIENCE_W-1:0] waited_q;
  logic                  wants, waits;

  assign decided    = !probed_q && (next_q == ahead_q || last_write);
  assign last_write = takes && (next_q + 1'b1 == ahead_q);
  assign probe      = active_q && !hold && decided && ahead_q != lines
                      && (push_q - pop_q != (PTR_W+1)'(GROUPS));
  assign probe_line = make_line_id(region_q, INDEX_W'(ahead_q[KEY_W-1:0]));

  assign wants    = active_q && !probed_q && next_q != ahead_q && !hold;
  assign waits    = others && (waited_q != PATIENCE_W'(PATIENCE));
  assign wr_valid = wants && !waits;
  assign target   = record_addr(d, INDEX_W'(next_q[KEY_W-1:0]), 4'(CNT_W));
  assign wr_addr  = LADDR_W'(target[KEY_W-1:0]);
  assign takes    = wr_valid && wr_ready;

  // ---- those that memory has answered, in their order -------------------------------------------
  assign front_marked = marked_q[pop_q[PTR_W-1:0]];
  assign pass         = (push_q != pop_q) && (front_marked || answers_q >= group);

  assign lowest = pending_q & (~pending_q + 1'b1);
  always_comb begin
    lowest_region = '0;
    for (int r = 0; r < REGIONS; r++) begin
      if (lowest[r]) lowest_region = lowest_region | 4'(r);
    end
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      pending_q <= '0;
      active_q  <= 1'b0;
      waited_q  <= '0;
      probed_q  <= 1'b0;
    end else begin
      if (takes) waited_q <= '0;
      else if (wants && waits) waited_q <= waited_q + 1'b1;
      // A region in work that is claimed anew starts over, or ends when it needs no records any
      // more (commits happen with no write under way).
      if (restart) begin
        active_q  <= 1'b0;
        pending_q <= pending_q | start;
      end else if (!active_q) begin
        pending_q <= (pending_q & ~cancel & ~(hold ? '0 : lowest)) | start;
        active_q  <= |pending_q && !hold;
      end else begin
        pending_q <= (pending_q & ~cancel) | start;
        active_q  <= (passed_q != lines);
      end
      probed_q <= probe && probe_ready && !restart;
    end
  end

  always_ff @(posedge clk) begin
    if (!active_q) begin
      region_q  <= lowest_region;
      passed_q  <= '0;
      next_q    <= '0;
      judged_q  <= '0;
      ahead_q   <= '0;
      flight_q  <= '0;
      answers_q <= '0;
      push_q    <= '0;
      pop_q     <= '0;
    end else begin
      if (probe && probe_ready) ahead_q <= ahead_q + group;
      if (probed_q) begin
        marked_q[push_q[PTR_W-1:0]] <= probe_marked;
        push_q                      <= push_q + 1'b1;
        judged_q                    <= ahead_q;
      end
      if (probed_q && probe_marked) next_q <= ahead_q;
      else if (takes) next_q <= next_q + 1'b1;
      if (pass) begin
        passed_q <= passed_q + group;
        pop_q    <= pop_q + 1'b1;
      end
      flight_q  <= flight_q + (KEY_W+1)'(takes) - (KEY_W+1)'(b_valid);
      answers_q <= answers_q + (KEY_W+1)'(b_valid) - ((pass && !front_marked) ? group : '0);
    end
  end

  for (genvar r = 0; r < REGIONS; r++) begin : g_active
    assign active[r] = active_q && region_q == 4'(r);
  end

  assign fresh         = pending_q | active;
  assign busy          = |fresh;
  assign busy_writes   = active_q && flight_q != '0;
  assign failed        = b_valid && b_err;
  assign region        = region_q;

  // Nobody waits for the group whose mark comes in this clock: who asks has set it before.
  logic [PTR_W-1:0] a_group, b_group;
  logic [KEY_W:0]   a_at, b_at, c_at;

  assign a_at    = {1'b0, a.index[KEY_W-1:0]};
  assign b_at    = {1'b0, b.index[KEY_W-1:0]};
  assign c_at    = {1'b0, c.index[KEY_W-1:0]};
  assign a_group = PTR_W'(a.index >> group_log2(d, 6'(MARKS_LOG2)));
  assign b_group = PTR_W'(b.index >> group_log2(d, 6'(MARKS_LOG2)));
  assign a_waits = active_q && a.region == region_q && !marked_q[a_group]
                   && a_at >= passed_q && a_at < judged_q;
  assign b_waits = active_q && b.region == region_q && !marked_q[b_group]
                   && b_at >= passed_q && b_at < judged_q;
  assign c_ahead = pending_q[32'(c.region) % REGIONS]
                   || (active_q && c.region == region_q && c_at >= ahead_q);

`ifdef NF_CHECKED
  logic [7:0] gave_q;  // clocks in which it gave way for this write

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) gave_q <= '0;
    else if (takes) gave_q <= '0;
    else if (wants && !wr_valid) gave_q <= gave_q + 1'b1;
  end
`endif
  `NF_ASSERT_NEVER(GivesWay_A, wr_valid && others && 32'(gave_q) < PATIENCE)
  `NF_ASSERT_NEVER(OwnTurn_A, wants && !wr_valid && 32'(gave_q) >= PATIENCE)
  `NF_ASSERT_NEVER(BWithoutWrite_A, b_valid && !busy_writes)
  `NF_ASSERT_NEVER(OutOfMemory_A, wr_valid && (target >> KEY_W) != '0)
  `NF_ASSERT_NEVER(TooManyLines_A, active_q && 32'(d.lines_log2) > KEY_W)
  `NF_ASSERT_NEVER(Order_A, active_q && (passed_q > next_q || next_q > ahead_q || judged_q > ahead_q
                                        || ahead_q > lines))
  `NF_ASSERT_NEVER(WaitsForever_A, (a_waits || b_waits) && !busy)
  `NF_ASSERT_NEVER(RestartBusy_A, restart && busy_writes)
endmodule

`default_nettype wire
