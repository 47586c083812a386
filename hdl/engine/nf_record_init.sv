// SPDX-License-Identifier: Apache-2.0
// Overwrites the bookkeeping lines of a newly claimed state area with empty records.
//
// `start[r]` (with the commit) queues region r. Until line i has been overwritten *and* the write
// has been answered, `a_fresh` and `b_fresh` are 1 for it: its record must not be read (it holds no
// state) and must not be written (the initialiser is still to come). `cancel[r]` (the region became
// IDENTITY) ends it. `hold` pauses it; `busy_writes` says that writes are under way. It gives way
// to other writes (`others`), but not for more than PATIENCE clocks on end. A write that fails
// makes the region untrusted until its next commit: what its records hold is unknown, so nothing
// read from them may be taken for state.

`default_nettype none
`include "nf_assert.svh"

module nf_record_init
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
  parameter int REGIONS  = 8,
  parameter int CNT_W    = 8,
  parameter int PATIENCE = 7
) (
  input  wire logic               clk,    // clock, rising edge
  input  wire logic               rst_n,  // asynchronous reset, active low

  input  wire logic               hold,           // pause: let nothing new in
  input  wire logic               others,         // other writes wait
  input  wire logic [REGIONS-1:0] start,          // queue the state area of a region
  input  wire logic [REGIONS-1:0] cancel,         // end it
  input  wire logic [DESCS_W-1:0] desc,           // active descriptors
  output logic                    busy,           // some region is not finished
  output logic                    busy_writes,    // writes are under way
  output logic                    failed,  // pulse, for region `failed_region`
  output logic [3:0]              failed_region,  // that region

  // Two lookups: the fill unit and the eviction unit ask about a line.
  input  wire line_id_t           a,        // line of the fill unit
  output logic                    a_fresh,  // its record is not initialised yet
  input  wire line_id_t           b,        // line of the eviction unit
  output logic                    b_fresh,  // its record is not initialised yet

  // Single-line writes of zeros.
  output logic                    wr_valid,  // write beat valid
  input  wire logic               wr_ready,  // write beat taken
  output logic [LADDR_W-1:0]      wr_addr,   // line address of the write
  input  wire logic               b_valid,   // memory has answered the oldest write
  input  wire logic               b_err      // it refused that write
);
  logic [REGIONS-1:0] pending_q, lowest;
  logic               active_q;
  logic [3:0]         region_q, lowest_region;
  logic [INDEX_W:0]   issued_q, written_q, lines;
  region_desc_t       d;
  logic               restart, all_issued, all_written;

  assign d           = desc_of(desc, region_q);
  assign lines       = (INDEX_W+1)'(1) << d.lines_log2;
  assign all_issued  = (issued_q == lines);
  assign all_written = (written_q == lines);
  assign restart     = active_q && (start[32'(region_q) % REGIONS]
                                    || cancel[32'(region_q) % REGIONS]);

  localparam int PATIENCE_W = $clog2(PATIENCE + 1);
  logic [PATIENCE_W-1:0] waited_q;
  logic                  wants, waits;

  assign wants    = active_q && !all_issued && !hold;
  assign waits    = others && (waited_q != PATIENCE_W'(PATIENCE));
  assign wr_valid = wants && !waits;
  assign wr_addr  = LADDR_W'(record_addr(d, issued_q[INDEX_W-1:0], 4'(CNT_W)));

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
    end else begin
      if (wr_valid && wr_ready) waited_q <= '0;
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
        active_q  <= !all_written;
      end
    end
  end

  always_ff @(posedge clk) begin
    if (!active_q) begin
      region_q  <= lowest_region;
      issued_q  <= '0;
      written_q <= '0;
    end else begin
      if (wr_valid && wr_ready) issued_q <= issued_q + 1'b1;
      if (b_valid) written_q <= written_q + 1'b1;
    end
  end

  assign busy          = active_q || |pending_q;
  assign busy_writes   = active_q && (issued_q != written_q);
  assign failed        = b_valid && b_err;
  assign failed_region = region_q;

  assign a_fresh = pending_q[32'(a.region) % REGIONS]
                   || (active_q && a.region == region_q && {1'b0, a.index} >= written_q);
  assign b_fresh = pending_q[32'(b.region) % REGIONS]
                   || (active_q && b.region == region_q && {1'b0, b.index} >= written_q);

`ifdef NF_CHECKED
  logic [7:0] gave_q;  // clocks in which it gave way for this write

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) gave_q <= '0;
    else if (wr_valid && wr_ready) gave_q <= '0;
    else if (wants && !wr_valid) gave_q <= gave_q + 1'b1;
  end
`endif
  `NF_ASSERT_NEVER(GivesWay_A, wr_valid && others && 32'(gave_q) < PATIENCE)
  `NF_ASSERT_NEVER(OwnTurn_A, wants && !wr_valid && 32'(gave_q) >= PATIENCE)
  `NF_ASSERT_NEVER(BWithoutWrite_A, b_valid && !busy_writes)
  `NF_ASSERT_NEVER(WriteRange_A, active_q && (written_q > issued_q || issued_q > lines))
  `NF_ASSERT_NEVER(FreshForever_A, (a_fresh || b_fresh) && !busy)
  `NF_ASSERT_NEVER(RestartBusy_A, restart && busy_writes)
endmodule

`default_nettype wire
