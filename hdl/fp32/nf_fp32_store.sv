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
  input  wire logic          clk,    // clock, rising edge
  input  wire logic          rst_n,  // asynchronous reset, active low

  input  wire logic          store_valid,  // store valid
  output logic               store_ready,  // it is taken
  input  wire fp_store_t     store,        // worker's line and its address

  output logic               wr_valid,  // write beat valid
  input  wire logic          wr_ready,  // write beat taken
  output logic [LADDR_W-1:0] wr_addr,   // line address of the write
  output logic [LINE_W-1:0]  wr_data,   // data of the beat
  output logic [BE_W-1:0]    wr_strb,   // byte strobes of the beat
  input  wire logic          b_valid,   // memory has answered the oldest write

  output fp_stored_t         stored  // store that memory has answered
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
