// SPDX-License-Identifier: Apache-2.0
// Types that travel between the engine and the FP32 path. A struct is put together by its make_
// function, where fields have names.

`default_nettype none

package nf_fp32_pkg;
  import nf_pkg::*;
  import nf_core_pkg::*;

  // What the FP32 path is asked for by the engine once the line's bitmap is known.
  typedef struct packed {
    resp_meta_t         meta;
    logic [7:0]         pin;    // of the slot that keeps the line's bookkeeping
    logic [INDEX_W-1:0] index;
    logic [63:0]        bitmap;  // lines to add (RAW: at most one bit)
    logic               raw;
    logic               poison;
    logic               keep;    // the sum is of a complete line: give it back
  } gather_op_t;

  function automatic gather_op_t make_gather_op(
    input resp_meta_t meta, input logic [7:0] pin, input logic [INDEX_W-1:0] index,
    input logic [63:0] bitmap, input logic raw, input logic poison, input logic keep
  );
    gather_op_t op;
    op.meta   = meta;
    op.pin   = pin;
    op.index  = index;
    op.bitmap = bitmap;
    op.raw    = raw;
    op.poison = poison;
    op.keep   = keep;
    return op;
  endfunction

  // What the engine hears when a gather has read all its lines.
  typedef struct packed {
    logic [7:0]        pin;
    logic              keep;  // `sum` is what its line adds up to
    logic [LINE_W-1:0] sum;
  } gather_end_t;

  // Who an FP32 contribution came from and the pin of the slot that keeps its line's bookkeeping.
  typedef struct packed {
    resp_meta_t         meta;
    logic [5:0]         worker;
    logic [7:0]         pin;
  } fp_stored_t;

  function automatic fp_stored_t make_fp_stored(
    input resp_meta_t meta, input logic [5:0] worker, input logic [7:0] pin
  );
    fp_stored_t stored;
    stored.meta   = meta;
    stored.worker = worker;
    stored.pin   = pin;
    return stored;
  endfunction

  // The line write of an FP32 contribution.
  typedef struct packed {
    fp_stored_t         origin;
    logic [LADDR_W-1:0] addr;
    logic [BE_W-1:0]    strb;
    logic [LINE_W-1:0]  data;
  } fp_store_t;

  function automatic fp_store_t make_fp_store(
    input fp_stored_t origin, input logic [LADDR_W-1:0] addr, input logic [BE_W-1:0] strb,
    input logic [LINE_W-1:0] data
  );
    fp_store_t store;
    store.origin = origin;
    store.addr   = addr;
    store.strb   = strb;
    store.data   = data;
    return store;
  endfunction

endpackage

`default_nettype wire
