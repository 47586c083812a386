// SPDX-License-Identifier: Apache-2.0
// Collects the answers of all units into the NDR and DRS queues towards the link, with DevLoad.
//
// A place in the queue was reserved when the transaction was admitted, so the queues never fill.
// The engine cannot be stalled and goes first; the others offer valid/ready. DevLoad follows the
// queue occupancy against three thresholds (0 = level off); an answer that belongs to a region in
// FALLBACK is at least MODERATE.

`default_nettype none
`include "nf_assert.svh"

module nf_respond
  import nf_pkg::*;
  import nf_core_pkg::*;
  import nf_ram_pkg::*;
#(
  parameter int REGIONS   = 8,
  parameter int NDR_DEPTH = 64,
  parameter int DRS_DEPTH = 64,
  parameter int ECC       = 1,
  parameter int INJECT_DATA = 0
) (
  input  wire logic               clk,        // clock, rising edge
  input  wire logic               rst_n,      // asynchronous reset, active low
  input  wire ram_flip_t          ram_flip,   // bit of a protected RAM to flip (RAS_INJECT)
  // Fault that the protected RAM has found in this cycle.
  output ram_fault_t              ram_fault,

  input  wire logic [8:0]         occupancy,          // responses owed: admitted and not yet sent
  input  wire logic [23:0]        devload_threshold,  // {severe, moderate, optimal}
  input  wire logic [REGIONS-1:0] fallback,           // regions in FALLBACK

  input  wire logic               engine_ndr_valid,  // completion of the engine; cannot wait
  input  wire resp_meta_t         engine_ndr_meta,   // its requester and region
  input  wire logic               plain_ndr_valid,   // completion of plain memory
  output logic                    plain_ndr_ready,   // it is taken
  input  wire resp_meta_t         plain_ndr_meta,    // its requester and region

  input  wire logic               engine_drs_valid,  // answer of the engine; cannot wait
  input  wire answer_t            engine_drs,        // its data
  input  wire logic               plain_drs_valid,   // answer of plain memory
  output logic                    plain_drs_ready,   // it is taken
  input  wire answer_t            plain_drs,         // its data
  input  wire logic               gather_drs_valid,  // answer of the FP32 path
  output logic                    gather_drs_ready,  // it is taken
  input  wire answer_t            gather_drs,        // its data

  input  wire logic               view_drs_valid,  // answer of the status view
  output logic                    view_drs_ready,  // it is taken
  input  wire answer_t            view_drs,        // its data

  input  wire logic               ctrl_ndr_valid,  // completion of the control window
  output logic                    ctrl_ndr_ready,  // it is taken
  input  wire resp_meta_t         ctrl_ndr_meta,   // its requester
  input  wire logic               ctrl_drs_valid,  // answer of the control window
  output logic                    ctrl_drs_ready,  // it is taken
  input  wire answer_t            ctrl_drs,        // its data

  input  wire logic               direct_valid,    // answer of the decoder
  output logic                    direct_ready,    // it is taken
  input  wire logic               direct_is_read,  // all ones with Poison, else a completion
  input  wire resp_meta_t         direct_meta,     // its requester and region

  output logic                    ndr_valid,    // completion valid
  input  wire logic               ndr_ready,    // completion taken
  output s2m_ndr_t                ndr,          // completion (NDR)
  output logic                    drs_valid,    // answer with data valid
  input  wire logic               drs_ready,    // answer with data taken
  output s2m_drs_t                drs,          // answer with data
  // Strobes, but for the control window: an answer goes to its queue; its batch.
  output logic                    ndr_done,     // a completion
  output logic                    ndr_batch,    // batch of its request
  output logic                    drs_done,     // an answer with data
  output logic                    drs_batch,    // batch of its request
  output logic [7:0]              drs_waiting   // answers with data in the queue
);
  localparam int NDR_W = $bits(s2m_ndr_t);
  localparam int DRS_W = $bits(s2m_drs_t);

  // ---- DevLoad ----------------------------------------------------------------------------------
  devload_e load;

  always_comb begin
    load = DEVLOAD_LIGHT;
    if (devload_threshold[7:0] != 8'd0 && occupancy >= {1'b0, devload_threshold[7:0]})
      load = DEVLOAD_OPTIMAL;
    if (devload_threshold[15:8] != 8'd0 && occupancy >= {1'b0, devload_threshold[15:8]})
      load = DEVLOAD_MODERATE;
    if (devload_threshold[23:16] != 8'd0 && occupancy >= {1'b0, devload_threshold[23:16]})
      load = DEVLOAD_SEVERE;
  end

  // The load that an answer carries: at least MODERATE for a region in FALLBACK.
  function automatic devload_e load_of(input devload_e now, input logic overload);
    if (overload && (now == DEVLOAD_LIGHT || now == DEVLOAD_OPTIMAL)) return DEVLOAD_MODERATE;
    return now;
  endfunction

  // ---- NDR --------------------------------------------------------------------------------------
  resp_meta_t ndr_meta;
  logic [3:0] ndr_region, drs_region;
  s2m_ndr_t   ndr_in;
  logic       ndr_push, ndr_room, ndr_overload;

  assign plain_ndr_ready  = !engine_ndr_valid;
  assign ctrl_ndr_ready   = plain_ndr_ready && !plain_ndr_valid;
  assign ndr_push = engine_ndr_valid || plain_ndr_valid || ctrl_ndr_valid
                    || (direct_valid && !direct_is_read);
  assign ndr_meta = engine_ndr_valid ? engine_ndr_meta : plain_ndr_valid ? plain_ndr_meta
                    : ctrl_ndr_valid ? ctrl_ndr_meta : direct_meta;
  assign ndr_region   = ndr_meta.region;
  assign ndr_overload = ndr_meta.in_region && fallback[32'(ndr_region) % REGIONS];

  assign ndr_in = make_ndr(ndr_meta.tag, ndr_meta.ldid, load_of(load, ndr_overload));

  nf_fifo #(.WIDTH(NDR_W), .DEPTH(NDR_DEPTH)) u_ndr (
    .clk, .rst_n,
    .in_valid (ndr_push), .in_ready (ndr_room),
    .in_data (ndr_in),
    .out_valid (ndr_valid), .out_ready (ndr_ready),
    .out_data (ndr),
    /* verilator lint_off PINCONNECTEMPTY */
    .count ()
    /* verilator lint_on PINCONNECTEMPTY */
  );

  // ---- DRS --------------------------------------------------------------------------------------
  answer_t    answer;
  s2m_drs_t   drs_in;
  logic       drs_push, drs_room, drs_overload;
  logic [$clog2(DRS_DEPTH+1)-1:0] drs_count;

  assign plain_drs_ready  = !engine_drs_valid;
  assign gather_drs_ready = plain_drs_ready && !plain_drs_valid;
  assign view_drs_ready   = gather_drs_ready && !gather_drs_valid;
  assign ctrl_drs_ready   = view_drs_ready && !view_drs_valid;
  assign direct_ready     = direct_is_read ? (ctrl_drs_ready && !ctrl_drs_valid)
                            : (ctrl_ndr_ready && !ctrl_ndr_valid);
  assign drs_push = engine_drs_valid || plain_drs_valid || gather_drs_valid || view_drs_valid
                    || ctrl_drs_valid || (direct_valid && direct_is_read);
  assign drs_region   = answer.meta.region;
  assign drs_overload = answer.meta.in_region && fallback[32'(drs_region) % REGIONS];

  // The last alternative is a refused or unmapped read.
  assign answer = engine_drs_valid   ? engine_drs
                  : plain_drs_valid  ? plain_drs
                  : gather_drs_valid ? gather_drs
                  : view_drs_valid   ? view_drs
                  : ctrl_drs_valid   ? ctrl_drs : make_answer(direct_meta, 1'b1, {LINE_W{1'b1}});
  assign drs_in = make_drs(answer.meta.tag, answer.meta.ldid, load_of(load, drs_overload),
                           answer.poison, answer.data);

  s2m_drs_t drs_held;
  logic     drs_bad;

  nf_data_fifo #(
    .RAM(RAM_ANSWERS), .ECC(ECC), .INJECT_DATA(INJECT_DATA),
    .WIDTH(DRS_W), .DEPTH(DRS_DEPTH), .BLOCK(1)
  ) u_drs (
    .clk, .rst_n,
    .flip (ram_flip), .fault (ram_fault),
    .in_valid (drs_push), .in_ready (drs_room),
    .in_data (drs_in),
    .out_valid (drs_valid), .out_ready (drs_ready),
    .out_data (drs_held), .out_bad (drs_bad),
    .count (drs_count)
  );
  assign drs = make_drs(drs_held.tag, drs_held.ldid, drs_held.devload, drs_held.poison || drs_bad,
                        drs_held.data);

  assign ndr_done    = ndr_push && !(ctrl_ndr_valid && ctrl_ndr_ready);
  assign ndr_batch   = ndr_meta.batch;
  assign drs_done    = drs_push && !(ctrl_drs_valid && ctrl_drs_ready);
  assign drs_batch   = answer.meta.batch;
  assign drs_waiting = 8'(drs_count);

  `NF_ASSERT_NEVER(NdrRoom_A, ndr_push && !ndr_room)
  `NF_ASSERT_NEVER(DrsRoom_A, drs_push && !drs_room)
  `NF_ASSERT_NEVER(PlainNdrTaken_A, plain_ndr_valid && !plain_ndr_ready)
endmodule

`default_nettype wire
