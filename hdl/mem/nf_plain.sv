// SPDX-License-Identifier: Apache-2.0
// Plain memory: ordinary addresses and IDENTITY regions, one AXI beat a line.
//
// Writes and reads are pipelined; what each needs for its answer waits in a queue in AXI order (one
// ID each way). Poison goes with the data (WUSER) and comes back with it (RUSER). A read error is
// answered with all ones and Poison, a write error with Cmp and a count.

`default_nettype none
`include "nf_assert.svh"

module nf_plain
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
  parameter int TRACK = 64  // transactions under way each way: the places reserved at admission
) (
  input  wire logic          clk,    // clock, rising edge
  input  wire logic          rst_n,  // asynchronous reset, active low

  input  wire logic          op_valid,  // operation valid
  output logic               op_ready,  // operation taken
  input  wire plain_op_t     op,        // read or write of one line

  output logic               wr_valid,   // write beat valid
  input  wire logic          wr_ready,   // write beat taken
  output logic [LADDR_W-1:0] wr_addr,    // line address of the write
  output logic [LINE_W-1:0]  wr_data,    // line
  output logic [BE_W-1:0]    wr_strb,    // byte strobes of the beat
  output logic               wr_poison,  // the line is poisoned
  input  wire logic          b_valid,  // with ndr_ready

  output logic               ar_valid,  // read request valid
  input  wire logic          ar_ready,  // read request taken
  output logic [LADDR_W-1:0] ar_addr,   // line address of the read
  input  wire logic          r_valid,   // read beat valid
  output logic               r_ready,   // read beat taken
  input  wire read_beat_t    r_beat,    // read beat

  output resp_meta_t         ndr_meta,  // valid with b_valid
  output logic               drs_valid,  // answer with data valid
  input  wire logic          drs_ready,  // answer with data taken
  output answer_t            drs         // answer with data
);
  localparam int META_W = $bits(resp_meta_t);

  logic       wr_track_ready, rd_track_ready, rd_track_valid;
  resp_meta_t drs_meta;

  assign wr_valid  = op_valid && op.write;
  assign ar_valid  = op_valid && !op.write;
  assign op_ready  = op.write ? wr_ready : ar_ready;
  assign wr_addr   = op.addr;
  assign wr_data   = op.data;
  assign wr_strb   = op.be;
  assign wr_poison = op.poison;
  assign ar_addr   = op.addr;

  /* verilator lint_off PINCONNECTEMPTY */
  nf_fifo #(.WIDTH(META_W), .DEPTH(TRACK)) u_writes (
    .clk, .rst_n,
    .in_valid (wr_valid && wr_ready), .in_ready (wr_track_ready),
    .in_data (op.meta),
    .out_valid (), .out_ready (b_valid),
    .out_data (ndr_meta), .count ()
  );
  nf_fifo #(.WIDTH(META_W), .DEPTH(TRACK)) u_reads (
    .clk, .rst_n,
    .in_valid (ar_valid && ar_ready), .in_ready (rd_track_ready),
    .in_data (op.meta),
    .out_valid (rd_track_valid), .out_ready (r_valid && r_ready),
    .out_data (drs_meta), .count ()
  );
  /* verilator lint_on PINCONNECTEMPTY */

  assign drs_valid = r_valid;
  assign r_ready   = drs_ready;
  assign drs       = make_answer(drs_meta, r_beat.err || r_beat.poison,
                                 r_beat.err ? '1 : r_beat.data);

  `NF_ASSERT_NEVER(WriteTrackRoom_A, wr_valid && !wr_track_ready)
  `NF_ASSERT_NEVER(ReadTrackRoom_A, ar_valid && !rd_track_ready)
  `NF_ASSERT_NEVER(BeatWithoutRead_A, r_valid && !rd_track_valid)
endmodule

`default_nettype wire
