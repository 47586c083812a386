// SPDX-License-Identifier: Apache-2.0
// Rules of aggregation: effect of one operation on the state of its line. Combinational.
//
// `is_op`: `op` is an operation that was issued. `is_stored`: instead, the FP32 store `op` is in
// memory now (or, with `stored_err`, was refused by it): only then is its worker marked seen.
// Outputs are valid only with one of the two; `changed`: the state must be written back. `kept`:
// the sum of the line is count plane 0. `is_early`: `op` is a whole FP32 line that is stored while
// its state is fetched, whatever that state will be. The count planes before are chosen here, since
// carry cells (`ECP5`) do that in the step that counts.

`default_nettype none

module nf_line_rules
  import nf_pkg::*;
  import nf_core_pkg::*;
  import nf_fp32_pkg::*;
  import nf_tern5_pkg::*;
#(
  parameter int CNT_W = 8,
  parameter int TERN5 = 0,
  parameter int ECP5  = 0
) (
  input  wire logic                    is_op,            // `op` is an operation that was issued
  input  wire logic                    is_stored,        // the FP32 store of `op` is in memory
  input  wire logic                    stored_err,       // memory refused that store
  // `op` is a whole FP32 line, stored while its state is fetched.
  input  wire logic                    is_early,
  input  wire logic                    kept,  // count plane 0 is the kept sum of the line
  input  wire engine_op_t              op,               // operation in S2
  input  wire trits_t                  trits,   // of a contribution, as nf_line_codes has them
  input  wire logic                    illegal_ternary,  // an element has the code 01
  input  wire logic                    illegal_tern5,    // a byte is no G_TERN5 code
  input  wire logic [7:0]              pin,              // pin of its slot
  input  wire region_desc_t            d,                // descriptor of its region
  input  wire logic                    closed,  // the region's round is over

  input  wire book_t                   book,      // bookkeeping before
  input  wire logic                    seen,    // the worker of `op` is in it
  input  wire logic [CNT_W*LINE_W-1:0] planes_read,   // as they were read or fetched
  input  wire logic [CNT_W*LINE_W-1:0] planes_newer,  // as they were written since
  input  wire logic                    forward,       // the newer ones count
  input  wire logic [CNT_W-1:0]        has,  // planes that mean something; others are 0
  output book_t                        book_d,    // bookkeeping after
  output logic [CNT_W*LINE_W-1:0]      planes_d,  // count planes after
  output logic                         changed,   // the state must be written

  // The answer: at once (Cmp, or a vote, plane or sums of the state), or by the FP32 path.
  output logic                         sends_ndr,    // answer with a completion
  output logic                         sends_drs,    // answer with data
  output logic                         poison,       // the answer is poisoned
  output logic                         store_push,   // make an FP32 store
  output fp_store_t                    store,        // that store
  output logic                         gather_push,  // start an FP32 gather
  output gather_op_t                   gather,       // that gather

  output engine_events_t               events  // what has happened to the line
);
  logic        contributes, stores, reads_kept, reads_fp, reads, raw, info;
  logic        news, late, adds, takes, taints, early, lost_vote, illegal;
  logic [63:0] me, everyone;
  logic [CNT_W*LINE_W-1:0] planes_others;

  assign contributes = is_op && (op.kind == OP_CONTRIBUTE);
  assign stores      = is_op && (op.kind == OP_FP_STORE);
  assign raw         = (op.kind == OP_FP_RAW);
  assign reads_kept  = is_op && (op.kind == OP_FP_SUM) && kept;
  assign reads_fp    = is_op && (op.kind == OP_FP_SUM || raw) && !reads_kept;
  assign info        = (op.kind == OP_INFO);
  assign sends_drs   = (is_op && (op.kind == OP_VOTE || op.kind == OP_PLANE || op.kind == OP_SUM
                                  || info)) || reads_kept;
  assign reads       = reads_fp || sends_drs;

  assign me       = 64'd1 << op.worker;
  assign everyone = worker_mask(d.workers);

  // A duplicate changes nothing; poisoned data is not added but marks the line, and so does an FP32
  // store that memory refused. In a closed region a contribution that would change something is
  // late instead: an FP32 store is, whoever sends it.
  assign news   = (contributes && !seen) || stores;
  assign late   = closed && news;
  assign adds   = contributes && !seen && !op.poison && !closed;
  assign takes  = adds || (is_stored && !stored_err);
  assign taints = op.poison && !closed && news;

  localparam int PLANES_W  = CNT_W * LINE_W;
  localparam int COUNTED_W = counting_planes(CNT_W) * LINE_W;

  // Count planes before. Carry cells make this choice in the LUT that counts.
  logic [PLANES_W-1:0] planes;
  for (genvar p = 0; p < CNT_W; p++) begin : g_planes
    assign planes[p*LINE_W +: LINE_W] = !has[p] ? '0
        : forward ? planes_newer[p*LINE_W +: LINE_W] : planes_read[p*LINE_W +: LINE_W];
  end

  logic counts, ternary, ones;
  assign counts  = adds && !d.tern5;
  assign ternary = (d.mode == MODE_G_TERNARY);
  assign ones    = is_int(d.mode);

  // Planes above those that count 64 workers are 0 here and stay as they are: no step is made for
  // them, and with seven below nothing saturates.
  if (ECP5 != 0 && CNT_W > 1) begin : g_ecp5  // nf_engine refuses one plane with ECP5
    logic unused_planes;
    assign unused_planes = ^planes;
    nf_ecp5_accumulate #(.CNT_W(CNT_W)) u_accumulate (
      .en (counts), .ternary, .ones, .data (op.data), .planes_read, .planes_newer, .forward, .has,
      .planes_out (planes_others), .saturated (lost_vote)
    );
  end else begin : g_portable
    logic [PLANES_W-1:0] counted;
    nf_accumulate #(.CNT_W(CNT_W)) u_accumulate (
      .en (counts), .ternary, .ones, .data (op.data),
      .planes_in (PLANES_W'(planes[COUNTED_W-1:0])), .planes_out (counted),
      .saturated (lost_vote)
    );
    if (COUNTED_W < PLANES_W) begin : g_above
      logic unused_above;
      assign unused_above  = ^counted[PLANES_W-1:COUNTED_W];
      assign planes_others = {planes[PLANES_W-1:COUNTED_W], counted[COUNTED_W-1:0]};
    end else begin : g_none_above
      assign planes_others = counted;
    end
  end

  if (TERN5 != 0) begin : g_tern5
    logic [CNT_W*LINE_W-1:0] planes_tern5;
    nf_tern5_add #(.CNT_W(CNT_W)) u_add (
      .en (adds && d.tern5), .trits, .planes_in (planes), .planes_out (planes_tern5)
    );
    assign planes_d = d.tern5 ? planes_tern5 : planes_others;
  end else begin : g_no_tern5
    assign planes_d = planes_others;
  end

  assign illegal = d.tern5 ? illegal_tern5 : (ternary && illegal_ternary);

  logic  marks;
  book_t book_after;

  assign marks   = taints || (is_stored && stored_err);
  assign changed = takes || taints || is_stored;

  always_comb begin
    book_after           = make_book(book.lost, book.poison || marks,
                                     takes ? (book.bitmap | me) : book.bitmap);
    book_after.saturated = book.saturated || lost_vote;
    book_d               = book_after;
  end

  // Early: the answer lacks contributions that are still to come; bookkeeping never is, nor poison.
  assign early     = !closed && !info && (raw ? !seen : (book.bitmap != everyone));
  assign poison    = !info && (book.poison || (d.strict && early));
  assign sends_ndr = is_stored || contributes || (stores && (op.poison || closed));

  // ---- FP32 path --------------------------------------------------------------------------------
  logic [LADDR_W-1:0] worker, index, line;
  logic [LINE_W-1:0]  enabled;
  logic [BE_W-1:0]    be;

  assign be = op.be;

  // A variable with a short way out, not 64 part drivers of a net: those are resolved bit by bit
  // under an event-driven simulator.
  always_comb begin
    enabled = '1;
    if (be != '1) begin
      for (int i = 0; i < BE_W; i++) enabled[i*8 +: 8] = {8{be[i]}};
    end
  end
  assign worker = {40'd0, op.worker};
  assign index  = {8'd0, op.index};
  assign line   = d.state_base + (worker << d.lines_log2) + index;

  // A worker's first store of an epoch writes the whole line: older bytes must not show through. A
  // sum to be kept that is poisoned is dropped where it is made (nf_fp32_gather).
  assign store_push  = (stores && !op.poison && !closed) || is_early;
  assign store       = make_fp_store(make_fp_stored(op.meta, op.worker, pin), line,
                                     seen ? op.be : {BE_W{1'b1}}, op.data & enabled);
  assign gather_push = reads_fp;
  assign gather      = make_gather_op(op.meta, pin, op.index,
                                      raw ? (book.bitmap & me) : book.bitmap, raw, poison,
                                      d.keep_sum && !raw && !early);

  // ---- events -----------------------------------------------------------------------------------
  engine_events_t seen_now;

  always_comb begin
    seen_now.duplicate       = contributes && seen;
    seen_now.illegal         = adds && illegal;
    seen_now.early_read      = reads && early;
    seen_now.poison_received = taints;
    seen_now.contribution    = takes;
    seen_now.late            = late;
    seen_now.line_complete   = takes && !seen && !book.lost && ((book.bitmap | me) == everyone);
    seen_now.line_poisoned   = marks && !book.poison;
    seen_now.worker_seen     = takes && !seen;
    seen_now.saturated       = lost_vote;
    events                   = seen_now;  // whole, so that its readers wake once
  end
endmodule

`default_nettype wire
