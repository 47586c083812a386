// SPDX-License-Identifier: Apache-2.0
// Types that travel between the blocks of the core (access, engine, fp32, mem); the link and the
// registers do not need them.

`default_nettype none

package nf_core_pkg;
  import nf_pkg::*;

  localparam int INDEX_W = 38;  // line index inside a region: 46 address bits less 8 selector bits
  localparam int GEN_W   = 32;  // generation of a region: one more at every commit
  localparam int MADDR_W = 48;  // line address arithmetic without overflow

  // Who a response goes to, and the region it belongs to (for DevLoad).
  typedef struct packed {
    logic [TAG_W-1:0]  tag;
    logic [LDID_W-1:0] ldid;
    logic              in_region;
    logic [3:0]        region;
  } resp_meta_t;

  // An operation of the aggregation engine.
  localparam logic [2:0] OP_CONTRIBUTE = 3'd0;  // low-bit contribution
  localparam logic [2:0] OP_VOTE       = 3'd1;  // low-bit reduced line
  localparam logic [2:0] OP_PLANE      = 3'd2;  // low-bit count plane
  localparam logic [2:0] OP_FP_STORE   = 3'd3;  // FP32 contribution
  localparam logic [2:0] OP_FP_SUM     = 3'd4;  // FP32 ordered sum
  localparam logic [2:0] OP_FP_RAW     = 3'd5;  // FP32 own line of one worker

  typedef struct packed {
    logic [2:0]         kind;
    resp_meta_t         meta;
    logic [INDEX_W-1:0] index;
    logic [5:0]         worker;
    logic [2:0]         plane;
    logic               poison;
    logic [BE_W-1:0]    be;
    logic [LINE_W-1:0]  data;
  } engine_op_t;

  // What travels down the engine's pipeline: an operation, a finished fill, a miss that evicts, or an FP32
  // store that is now in memory: only then is its worker marked seen.
  localparam logic [1:0] ACT_OP     = 2'd0;
  localparam logic [1:0] ACT_FILL   = 2'd1;
  localparam logic [1:0] ACT_MISS   = 2'd2;
  localparam logic [1:0] ACT_STORED = 2'd3;

  // A read or write of plain memory (ordinary addresses and IDENTITY regions).
  typedef struct packed {
    logic               write;
    resp_meta_t         meta;
    logic [LADDR_W-1:0] addr;
    logic               poison;
    logic [BE_W-1:0]    be;
    logic [LINE_W-1:0]  data;
  } plain_op_t;

  // Bookkeeping of a line, beside its count planes.
  typedef struct packed {
    logic        lost;     // a memory error took the state: poisoned, never counted complete
    logic        poison;
    logic [63:0] bitmap;   // workers seen in this epoch
  } book_t;

  // Bookkeeping as beat 0 of a record in the state area. GEN names the commit that wrote it: a
  // record of an older epoch, or an initialised one (0), never matches.
  typedef struct packed {
    logic [LINE_W-GEN_W-$bits(book_t)-1:0] rsvd;
    logic [GEN_W-1:0]                      gen;
    book_t                                 book;
  } record_t;

  // What the FP32 path is asked for by the engine once the line's bitmap is known.
  typedef struct packed {
    resp_meta_t         meta;
    logic [7:0]         slot;    // keeps the line's bookkeeping
    logic [INDEX_W-1:0] index;
    logic [63:0]        bitmap;  // lines to add (RAW: at most one bit)
    logic               raw;
    logic               poison;
  } gather_op_t;

  // Who an FP32 contribution came from and which slot keeps its line's bookkeeping.
  typedef struct packed {
    resp_meta_t         meta;
    logic [5:0]         worker;
    logic [7:0]         slot;
  } fp_stored_t;

  // The line write of an FP32 contribution.
  typedef struct packed {
    fp_stored_t         origin;
    logic [LADDR_W-1:0] addr;
    logic [BE_W-1:0]    strb;
    logic [LINE_W-1:0]  data;
  } fp_store_t;

  function automatic logic is_low_bit(input logic [1:0] mode);
    return (mode == MODE_G_BINARY) || (mode == MODE_G_TERNARY);
  endfunction

  // Count planes kept for `workers` contributors: min(cnt_w, ceil(log2(workers + 1))).
  function automatic logic [3:0] planes_of(input logic [7:0] workers, input logic [3:0] cnt_w);
    logic [3:0] need;
    casez (workers)
      8'b1???????: need = 4'd8;
      8'b01??????: need = 4'd7;
      8'b001?????: need = 4'd6;
      8'b0001????: need = 4'd5;
      8'b00001???: need = 4'd4;
      8'b000001??: need = 4'd3;
      8'b0000001?: need = 4'd2;
      default:     need = 4'd1;
    endcase
    return (need < cnt_w) ? need : cnt_w;
  endfunction

  // log2 of the lines of a record: one bookkeeping line and the planes, rounded up to a power of two.
  function automatic logic [2:0] record_log2(input logic [3:0] planes);
    return (planes == 4'd1) ? 3'd1 : (planes <= 4'd3) ? 3'd2 : (planes <= 4'd7) ? 3'd3 : 3'd4;
  endfunction

  function automatic logic [63:0] worker_mask(input logic [7:0] workers);
    return (workers >= 8'd64) ? '1 : ((64'd1 << workers[5:0]) - 64'd1);
  endfunction

  // First line of the record of line `index` in the region's state area.
  function automatic logic [MADDR_W-1:0] record_addr(
      input region_desc_t d, input logic [INDEX_W-1:0] index, input logic [3:0] cnt_w);
    logic [MADDR_W-1:0] base;
    base = MADDR_W'(d.state_base);
    if (d.mode == MODE_FP32) return base + (MADDR_W'(d.workers) << d.lines_log2) + MADDR_W'(index);
    return base + (MADDR_W'(index) << record_log2(planes_of(d.workers, cnt_w)));
  endfunction

endpackage

`default_nettype wire
