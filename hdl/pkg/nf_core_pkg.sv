// SPDX-License-Identifier: Apache-2.0
// Types that travel between the blocks of the core (access, engine, fp32, mem). A struct is put
// together by its make_ function, where fields have names.

`default_nettype none

package nf_core_pkg;
  import nf_pkg::*;

  localparam int INDEX_W   = 38;  // line index inside a region: 46 address bits less 8 of selector
  localparam int REC_GEN_W = 32;  // room in a record for the generation: one more at every commit
  localparam int MADDR_W   = 48;  // line address arithmetic without overflow

  // Depths that are no parameters of the device.
  localparam int NDR_OWED    = 64;  // requests admitted that are owed a completion
  localparam int DRS_OWED    = 64;  // requests admitted that are owed data
  localparam int EVICT_DEPTH = 4;   // evicted lines that wait for memory
  localparam int FILL_DEPTH  = 16;  // records that are asked for, and wait for memory
  localparam int EXIT_DEPTH  = 8;   // FP32 stores, and as many reads, that wait for memory

  // Who a response goes to, the region it belongs to (for DevLoad), and the batch (nf_drain).
  typedef struct packed {
    logic              batch;
    logic [TAG_W-1:0]  tag;
    logic [LDID_W-1:0] ldid;
    logic              in_region;
    logic [3:0]        region;
  } resp_meta_t;

  function automatic resp_meta_t make_meta(
    input logic [TAG_W-1:0] tag, input logic [LDID_W-1:0] ldid, input logic in_region,
    input logic [3:0] region, input logic batch
  );
    resp_meta_t meta;
    meta.batch     = batch;
    meta.tag       = tag;
    meta.ldid      = ldid;
    meta.in_region = in_region;
    meta.region    = region;
    return meta;
  endfunction

  // A message of the link that has been admitted: a Req or, with is_rwd, an RwD.
  typedef struct packed {
    logic               is_rwd;
    logic               illegal;
    logic [3:0]         opcode;  // req_opcode_e or rwd_opcode_e
    logic [TAG_W-1:0]   tag;
    logic [LDID_W-1:0]  ldid;
    logic [LADDR_W-1:0] addr;
    logic               poison;
    logic [BE_W-1:0]    be;
    logic [LINE_W-1:0]  data;
  } access_t;

  function automatic access_t access_of_req(input m2s_req_t req);
    access_t a;
    a        = '0;
    a.opcode = req.opcode;
    a.tag    = req.tag;
    a.ldid   = req.ldid;
    a.addr   = req.addr;
    return a;
  endfunction

  function automatic access_t access_of_rwd(input m2s_rwd_t rwd);
    access_t a;
    a.is_rwd  = 1'b1;
    a.illegal = rwd.illegal;
    a.opcode  = rwd.opcode;
    a.tag     = rwd.tag;
    a.ldid    = rwd.ldid;
    a.addr    = rwd.addr;
    a.poison  = rwd.poison;
    a.be      = rwd.be;
    a.data    = rwd.data;
    return a;
  endfunction

  // A line of a region.
  typedef struct packed {
    logic [3:0]         region;
    logic [INDEX_W-1:0] index;
  } line_id_t;

  function automatic line_id_t make_line_id(
    input logic [3:0] region, input logic [INDEX_W-1:0] index
  );
    line_id_t line;
    line.region = region;
    line.index  = index;
    return line;
  endfunction

  // The same line with an index of `bits` bits: that many tell lines of a region apart.
  function automatic line_id_t short_line(input line_id_t line, input int bits);
    return make_line_id(line.region, line.index & ~({INDEX_W{1'b1}} << bits));
  endfunction

  // Bits of an index where memory has 2^mem_lines_log2 lines: each line of a region takes two of
  // them or more (its record, or its sum and the lines of its workers).
  function automatic int index_bits(input int mem_lines_log2);
    return mem_lines_log2 - 1;
  endfunction

  // The set of a line among 2^set_w: its index, as a polynomial over GF(2), modulo a primitive
  // polynomial of degree set_w (1 to 7; B. R. Rau, Pseudo-randomly interleaved memory, ISCA 1991),
  // XORed with its region, mirrored on the high bits. So 2^set_w consecutive lines are in different
  // sets, and so are lines that are any power of two apart; regions start far from each other.
  // Word p of INDEX_W bits: the bits of the index that decide bit p of the set.
  function automatic logic [7*INDEX_W-1:0] set_index_masks(input int set_w);
    int rest;  // x^b modulo the polynomial
    rest = 1;
    for (int b = 0; b < INDEX_W; b++) begin
      for (int p = 0; p < 7; p++) set_index_masks[p*INDEX_W + b] = ((rest >> p) & 1) != 0;
      rest = rest << 1;
      if ((rest >> set_w) != 0) begin
        rest = rest ^ ((1 << set_w) | (set_w == 5 ? 5 : set_w == 1 ? 1 : 3));
      end
    end
  endfunction

  // Pins of so many slots (nf_slot_pins): not more than there are slots.
  function automatic int pins_of(input int pins, input int slots);
    return (pins < 2) ? 2 : (pins < slots) ? pins : slots;
  endfunction

  // An operation of the aggregation engine.
  typedef enum logic [2:0] {
    OP_CONTRIBUTE = 3'd0,  // low-bit contribution
    OP_VOTE       = 3'd1,  // low-bit reduced line
    OP_PLANE      = 3'd2,  // low-bit count plane
    OP_FP_STORE   = 3'd3,  // FP32 contribution
    OP_FP_SUM     = 3'd4,  // FP32 ordered sum
    OP_FP_RAW     = 3'd5,  // FP32 own line of one worker
    OP_INFO       = 3'd6,  // bookkeeping of a line, any aggregating mode
    OP_SUM        = 3'd7   // line of sums of integer codes
  } op_kind_e;

  typedef struct packed {
    op_kind_e           kind;
    resp_meta_t         meta;
    logic [INDEX_W-1:0] index;
    logic [5:0]         worker;
    logic [2:0]         plane;
    logic               poison;
    logic [BE_W-1:0]    be;
    logic [LINE_W-1:0]  data;
  } engine_op_t;

  function automatic engine_op_t make_engine_op(
    input op_kind_e kind, input resp_meta_t meta, input logic [INDEX_W-1:0] index,
    input logic [5:0] worker, input logic [2:0] plane, input logic poison,
    input logic [BE_W-1:0] be, input logic [LINE_W-1:0] data
  );
    engine_op_t op;
    op.kind   = kind;
    op.meta   = meta;
    op.index  = index;
    op.worker = worker;
    op.plane  = plane;
    op.poison = poison;
    op.be     = be;
    op.data   = data;
    return op;
  endfunction

  // An operation whose data, if it has any, cannot be trusted (`bad`). The poison of
  // an operation without data is not used.
  function automatic engine_op_t mistrusted(input engine_op_t op, input logic bad);
    mistrusted = op;
    mistrusted.poison = op.poison || bad;
  endfunction

  // The kinds that work on count planes.
  function automatic logic is_low_bit_op(input op_kind_e kind);
    return (kind == OP_CONTRIBUTE) || (kind == OP_VOTE) || (kind == OP_PLANE) || (kind == OP_SUM);
  endfunction

  // What travels down the engine's pipeline: an operation, a finished fill, a miss that evicts, an
  // FP32 store that is now in memory (only then is its worker marked seen), or an FP32 sum to keep
  // (`op.data`).
  typedef enum logic [2:0] {
    ACT_OP     = 3'd0,
    ACT_FILL   = 3'd1,
    ACT_MISS   = 3'd2,
    ACT_STORED = 3'd3,
    ACT_KEEP   = 3'd4
  } action_e;

  typedef struct packed {
    action_e    act;
    engine_op_t op;
    logic [7:0] slot;
    logic [7:0] pin;         // of the slot, if the operation or what it starts needs one
    logic       kept;        // an operation: a sum is kept in the slot
    logic       early;       // ACT_MISS: `op` is an FP32 store that goes to memory at once;
                             // ACT_FILL: such a store is in memory now
    logic       dirty;       // ACT_MISS: the state of another line leaves the slot
    logic       victim_kept; // with a kept sum
    line_id_t   victim;      // that other line
    logic       stored_err;  // memory has refused the store
    logic       acts;        // ACT_MISS, ACT_FILL: `op` is executed, on an empty or fetched state
  } engine_stage_t;

  function automatic engine_stage_t make_stage(
    input action_e act, input engine_op_t op, input logic [7:0] slot, input logic [7:0] pin,
    input logic kept, input logic early, input logic dirty, input logic victim_kept,
    input line_id_t victim, input logic stored_err, input logic acts
  );
    engine_stage_t stage;
    stage.act         = act;
    stage.op          = op;
    stage.slot        = slot;
    stage.pin         = pin;
    stage.kept        = kept;
    stage.early       = early;
    stage.dirty       = dirty;
    stage.victim_kept = victim_kept;
    stage.victim      = victim;
    stage.stored_err  = stored_err;
    stage.acts        = acts;
    return stage;
  endfunction

  // What a fill brings into its slot (see nf_fill).
  typedef enum logic {
    FILL_FETCH = 1'b0,
    FILL_LOST  = 1'b1
  } fill_kind_e;

  // A commit on its way (see nf_regions).
  typedef enum logic [2:0] {
    COMMIT_IDLE  = 3'd0,
    COMMIT_DRAIN = 3'd1,
    COMMIT_STILL = 3'd2,
    COMMIT_APPLY = 3'd3,
    COMMIT_DONE  = 3'd4
  } commit_state_e;

  // What an operation has done to its line: one strobe (or small count) a clock.
  typedef struct packed {
    logic       duplicate;
    logic       illegal;         // of its codes, at least one
    logic       early_read;
    logic       poison_received;
    logic       contribution;
    logic       late;            // it came after CLOSE
    logic       line_complete;
    logic       line_poisoned;   // its first mark in this epoch
    logic       worker_seen;     // its worker is new to the line
    logic       saturated;
  } engine_events_t;

  // An answer with data, but for its valid.
  typedef struct packed {
    resp_meta_t        meta;
    logic              poison;
    logic [LINE_W-1:0] data;
  } answer_t;

  function automatic answer_t make_answer(
    input resp_meta_t meta, input logic poison, input logic [LINE_W-1:0] data
  );
    answer_t answer;
    answer.meta   = meta;
    answer.poison = poison;
    answer.data   = data;
    return answer;
  endfunction

  // A beat that memory returns, but for its valid.
  typedef struct packed {
    logic [LINE_W-1:0] data;
    logic              err;
    logic              poison;  // memory marks the line as poisoned
    logic              last;
  } read_beat_t;

  function automatic read_beat_t make_read_beat(
    input logic [LINE_W-1:0] data, input logic err, input logic poison, input logic last
  );
    read_beat_t beat;
    beat.data   = data;
    beat.err    = err;
    beat.poison = poison;
    beat.last   = last;
    return beat;
  endfunction

  // A read or write of plain memory (ordinary addresses and IDENTITY regions).
  typedef struct packed {
    logic               write;
    resp_meta_t         meta;
    logic [LADDR_W-1:0] addr;
    logic               poison;
    logic [BE_W-1:0]    be;
    logic [LINE_W-1:0]  data;
  } plain_op_t;

  function automatic plain_op_t make_plain_op(
    input logic write, input resp_meta_t meta, input logic [LADDR_W-1:0] addr, input logic poison,
    input logic [BE_W-1:0] be, input logic [LINE_W-1:0] data
  );
    plain_op_t op;
    op.write  = write;
    op.meta   = meta;
    op.addr   = addr;
    op.poison = poison;
    op.be     = be;
    op.data   = data;
    return op;
  endfunction

  // A read or write of a line of registers through the control window.
  typedef struct packed {
    logic                       write;
    resp_meta_t                 meta;
    logic [CTRL_LINES_LOG2-1:0] line;
    logic [CTRL_WORDS-1:0]      words;  // those that are written
    logic [LINE_W-1:0]          data;
  } ctrl_op_t;

  function automatic ctrl_op_t make_ctrl_op(
    input logic write, input resp_meta_t meta, input logic [CTRL_LINES_LOG2-1:0] line,
    input logic [CTRL_WORDS-1:0] words, input logic [LINE_W-1:0] data
  );
    ctrl_op_t op;
    op.write = write;
    op.meta  = meta;
    op.line  = line;
    op.words = words;
    op.data  = data;
    return op;
  endfunction

  // Bookkeeping of a line, stored with its count planes.
  typedef struct packed {
    logic        saturated;  // a count of the line lost an increment
    logic        lost;       // a memory error took the state: poisoned, never counted complete
    logic        poison;
    logic [63:0] bitmap;     // workers seen in this epoch
  } book_t;

  function automatic book_t make_book(
    input logic lost, input logic poison, input logic [63:0] bitmap
  );
    book_t book;
    book.saturated = 1'b0;
    book.lost      = lost;
    book.poison    = poison;
    book.bitmap    = bitmap;
    return book;
  endfunction

  // Bookkeeping as beat 0 of a record in the state area. GEN names the commit that wrote it: a
  // record of an older epoch, or an initialised one (0), never matches.
  typedef struct packed {
    logic [LINE_W-REC_GEN_W-$bits(book_t)-2:0] rsvd;
    logic                                      kept;  // FP32: the next line is the sum
    logic [REC_GEN_W-1:0]                      gen;
    book_t                                     book;
  } record_t;

  function automatic record_t make_record(
    input logic kept, input logic [REC_GEN_W-1:0] gen, input book_t book
  );
    record_t record;
    record.rsvd = '0;
    record.kept = kept;
    record.gen  = gen;
    record.book = book;
    return record;
  endfunction

  // The modes that sum integer codes, and all that count in planes.
  function automatic logic is_int(input mode_e mode);
    return (mode == MODE_G_INT4) || (mode == MODE_G_INT8);
  endfunction

  function automatic logic is_low_bit(input mode_e mode);
    return (mode == MODE_G_BINARY) || (mode == MODE_G_TERNARY) || (mode == MODE_G_TERN5)
           || is_int(mode);
  endfunction

  // Count planes kept for `workers` (1..64) contributors: min(cnt_w, ceil(log2(workers + 1))), one
  // more where each adds up to two (`twice`).
  function automatic logic [3:0] planes_of(
      input logic [7:0] workers, input logic twice, input logic [3:0] cnt_w);
    logic [3:0] need;
    casez (workers)
      8'b?1??????: need = 4'd7;
      8'b?01?????: need = 4'd6;
      8'b?001????: need = 4'd5;
      8'b?0001???: need = 4'd4;
      8'b?00001??: need = 4'd3;
      8'b?000001?: need = 4'd2;
      default:     need = 4'd1;
    endcase
    need = need + 4'(twice);
    return (need < cnt_w) ? need : cnt_w;
  endfunction

  // Count planes that are not zero, at most, once so many workers have contributed.
  function automatic logic [3:0] planes_in_use(
      input logic [6:0] seen, input logic twice, input logic [3:0] cnt_w);
    return (seen == '0) ? 4'd0 : planes_of(8'(seen), twice, cnt_w);
  endfunction

  // log2 of the lines of a record: bookkeeping and the planes (1..8), up to a power of two.
  function automatic logic [2:0] record_log2(input logic [3:0] planes);
    return planes[3] ? 3'd4 : (planes == 4'd1) ? 3'd1 : (planes <= 4'd3) ? 3'd2 : 3'd3;
  endfunction

  function automatic logic [63:0] worker_mask(input logic [7:0] workers);
    return (workers >= 8'd64) ? '1 : ~({64{1'b1}} << workers[5:0]);
  endfunction

  // FP32: first line of the records, after the data. With KEEP_SUM a record has two lines, and is
  // aligned to them, as a burst must not cross 4 KiB: the area has a line to spare for that.
  function automatic logic [MADDR_W-1:0] fp_records(input region_desc_t d);
    logic [MADDR_W-1:0] behind;
    behind = MADDR_W'(d.state_base) + (MADDR_W'(d.workers) << d.lines_log2);
    return behind + MADDR_W'(behind[0] && d.keep_sum);
  endfunction

  // log2 of the lines that share a mark of nf_written: a group.
  function automatic logic [5:0] group_log2(
      input region_desc_t d, input logic [5:0] marks_log2);
    return (d.lines_log2 > marks_log2) ? d.lines_log2 - marks_log2 : 6'd0;
  endfunction

  // First line of the record of line `index` in the region's state area.
  function automatic logic [MADDR_W-1:0] record_addr(
      input region_desc_t d, input logic [INDEX_W-1:0] index, input logic [3:0] cnt_w);
    if (d.mode == MODE_FP32) return fp_records(d) + (MADDR_W'(index) << d.keep_sum);
    return MADDR_W'(d.state_base)
           + (MADDR_W'(index) << record_log2(planes_of(d.workers, d.tern5, cnt_w)));
  endfunction

endpackage

`default_nettype wire
