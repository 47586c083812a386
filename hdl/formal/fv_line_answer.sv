// SPDX-License-Identifier: Apache-2.0
// nf_line_rules: what is executed is answered in one way, with its own tag, whatever the state of
// its line: by a completion, by data, by a store or by a gather; so is a store that memory has
// answered. Nothing else is answered. fv_lookup counts answers by the same rules.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_line_answer
  import nf_pkg::*;
  import nf_core_pkg::*;
  import nf_fp32_pkg::*;
#(
  parameter int CNT_W = 2
) (
  input wire logic                    clk,
  input wire logic                    is_op,
  input wire logic                    is_stored,
  input wire logic                    stored_err,
  input wire logic                    is_early,
  input wire logic                    kept,
  input wire engine_op_t              op,
  input wire logic [7:0]              pin,
  input wire region_desc_t            d,
  input wire logic                    closed,
  input wire book_t                   book,
  input wire logic [CNT_W*LINE_W-1:0] planes_read,
  input wire logic [CNT_W*LINE_W-1:0] planes_newer,
  input wire logic                    forward,
  input wire logic [CNT_W-1:0]        has
);
  book_t                   book_d;
  logic [CNT_W*LINE_W-1:0] planes_d;
  logic                    changed, sends_ndr, sends_drs, poison, store_push, gather_push;
  fp_store_t               store;
  gather_op_t              gather;
  engine_events_t          events;

  `NF_FORMAL_NO_RESET

  logic seen;
  assign seen = |(book.bitmap & (64'd1 << op.worker));

  nf_line_rules #(.CNT_W(CNT_W)) dut (.trits('0), .illegal_ternary(1'b0), .illegal_tern5(1'b0), .*);

  // fv_lookup: OneMeaning_A, EarlyIsStore_A
  `NF_ASSUME(OneMeaning_M, $onehot0({is_op, is_stored, is_early}))

  logic store_op, read_op, gather_op;
  assign store_op  = is_op && op.kind == OP_FP_STORE;
  assign gather_op = is_op && (op.kind == OP_FP_RAW || (op.kind == OP_FP_SUM && !kept));
  assign read_op   = is_op && !gather_op && op.kind != OP_CONTRIBUTE && op.kind != OP_FP_STORE;

  `NF_ASSERT(One_A, $onehot0({sends_ndr, sends_drs, store_push, gather_push}))
  `NF_ASSERT(Some_A, (sends_ndr || sends_drs || store_push || gather_push) ==
                     (is_op || is_stored || is_early))
  `NF_ASSERT(Stores_A, store_push == (is_early || (store_op && !op.poison && !closed)))
  `NF_ASSERT(Completes_A, sends_ndr == (is_stored || (is_op && op.kind == OP_CONTRIBUTE) ||
                                        (store_op && (op.poison || closed))))
  `NF_ASSERT(Gathers_A, gather_push == gather_op)
  `NF_ASSERT(Reads_A, sends_drs == read_op)
  `NF_ASSERT(Own_A, store.origin.meta == op.meta && gather.meta == op.meta &&
                    store.origin.pin == pin && gather.pin == pin)

  `NF_COVER(StoreWhileClosed_C, store_op && closed && sends_ndr)
  `NF_COVER(KeptSum_C, sends_drs && op.kind == OP_FP_SUM)
  `NF_COVER(Early_C, is_early && store_push)
endmodule

`default_nettype wire
