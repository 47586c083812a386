// SPDX-License-Identifier: Apache-2.0
// Stores FP32 contributions: one AXI beat each.
//
// `store_*` valid/ready. Writes share one AXI ID, so `b_valid` (which must be taken) belongs to the
// oldest store under way: `stored`, valid with it, says whose it was.

`default_nettype none
`include "nf_assert.svh"

module nf_fp32_store
  import nf_pkg::*;
  import nf_core_pkg::*;
  import nf_fp32_pkg::*;
#(
  parameter int TRACK = 64  // stores under way: the places reserved at admission
) (
  input  wire logic          clk,
  input  wire logic          rst_n,

  input  wire logic          store_valid,
  output logic               store_ready,
  input  wire fp_store_t     store,

  output logic               wr_valid,
  input  wire logic          wr_ready,
  output logic [LADDR_W-1:0] wr_addr,
  output logic [LINE_W-1:0]  wr_data,
  output logic [BE_W-1:0]    wr_strb,
  input  wire logic          b_valid,

  output fp_stored_t         stored
);
  logic track_ready;

  assign wr_valid    = store_valid;
  assign store_ready = wr_ready;
  assign wr_addr     = store.addr;
  assign wr_data     = store.data;
  assign wr_strb     = store.strb;

  /* verilator lint_off PINCONNECTEMPTY */
  nf_fifo #(.WIDTH($bits(fp_stored_t)), .DEPTH(TRACK)) u_track (
    .clk, .rst_n,
    .in_valid  (store_valid && store_ready),
    .in_ready  (track_ready),
    .in_data   (store.origin),
    .out_valid (),
    .out_ready (b_valid),
    .out_data  (stored),
    .count     ()
  );
  /* verilator lint_on PINCONNECTEMPTY */

  `NF_ASSERT_NEVER(TrackRoom_A, store_valid && !track_ready)
endmodule

`default_nettype wire
