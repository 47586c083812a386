// SPDX-License-Identifier: Apache-2.0
// The queues of FP32 stores and gathers after the engine's S2, and the room in them.
//
// `*_push` cannot be stalled: the lookup issues only where there is `*_room`, in addition to what
// is in S1 and S2.

`default_nettype none
`include "nf_assert.svh"

module nf_fp32_exits
  import nf_core_pkg::*;
  import nf_fp32_pkg::*;
  import nf_ram_pkg::*;
#(
  parameter int ECC = 1,
  parameter int INJECT_DATA = 0
) (
  input  wire logic       clk,        // clock, rising edge
  input  wire logic       rst_n,      // asynchronous reset, active low
  input  wire ram_flip_t  ram_flip,   // bit of a protected RAM to flip (RAS_INJECT)
  output ram_fault_t      ram_fault,  // fault that the protected RAM has found in this cycle

  input  wire logic       store_push,   // queue a store
  input  wire fp_store_t  store_in,     // that store
  output logic            store_room,   // there is room for one more
  output logic            store_valid,  // store valid
  input  wire logic       store_ready,  // it is taken
  output fp_store_t       store,        // oldest store
  output logic            store_bad,    // its data cannot be trusted

  input  wire logic       gather_push,   // queue a gather
  input  wire gather_op_t gather_in,     // that gather
  output logic            gather_room,   // there is room for one more
  output logic            gather_valid,  // gather valid
  input  wire logic       gather_ready,  // it is taken
  output gather_op_t      gather         // oldest gather
);
  localparam int COUNT_W = $clog2(EXIT_DEPTH + 1);
  localparam int AHEAD   = 2;  // stages

  logic [COUNT_W-1:0] store_count, gather_count;
  logic               store_push_ready, gather_push_ready;

  nf_data_fifo #(
    .RAM(RAM_STORES), .ECC(ECC), .INJECT_DATA(INJECT_DATA),
    .WIDTH($bits(fp_store_t)), .DEPTH(EXIT_DEPTH)
  ) u_stores (
    .clk, .rst_n,
    .flip (ram_flip), .fault (ram_fault),
    .in_valid (store_push), .in_ready (store_push_ready),
    .in_data (store_in),
    .out_valid (store_valid), .out_ready (store_ready),
    .out_data (store), .out_bad (store_bad),
    .count (store_count)
  );
  nf_fifo #(.WIDTH($bits(gather_op_t)), .DEPTH(EXIT_DEPTH)) u_gathers (
    .clk, .rst_n,
    .in_valid (gather_push), .in_ready (gather_push_ready),
    .in_data (gather_in),
    .out_valid (gather_valid), .out_ready (gather_ready),
    .out_data (gather), .count (gather_count)
  );

  assign store_room  = (32'(store_count) + AHEAD < EXIT_DEPTH);
  assign gather_room = (32'(gather_count) + AHEAD < EXIT_DEPTH);

  `NF_ASSERT_NEVER(StoreRoom_A, store_push && !store_push_ready)
  `NF_ASSERT_NEVER(GatherRoom_A, gather_push && !gather_push_ready)
endmodule

`default_nettype wire
