// SPDX-License-Identifier: Apache-2.0
// nf_respond: in each clock one answer of each class goes to its queue, if there is any, and its
// source is told so, no other; it is that source's, with the DevLoad of that clock. The queues are
// nf_fifo (fv_fifo). Assumed: the places that nf_admit keeps, and that the answer of a plain write
// comes in a clock without one of the engine: nf_axi_write holds it back meanwhile.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_respond
  import nf_pkg::*;
  import nf_core_pkg::*;
  import nf_ram_pkg::*;
#(
  parameter int NDR_DEPTH = 2,
  parameter int DRS_DEPTH = 2
) (
  input wire logic        clk,
  input wire logic [8:0]  occupancy,
  input wire logic [23:0] devload_threshold,
  input wire logic        fallback,
  input wire logic        engine_ndr_valid,
  input wire resp_meta_t  engine_ndr_meta,
  input wire logic        plain_ndr_valid,
  input wire resp_meta_t  plain_ndr_meta,
  input wire logic        ctrl_ndr_valid,
  input wire resp_meta_t  ctrl_ndr_meta,
  input wire logic        engine_drs_valid,
  input wire answer_t     engine_drs,
  input wire logic        plain_drs_valid,
  input wire answer_t     plain_drs,
  input wire logic        gather_drs_valid,
  input wire answer_t     gather_drs,
  input wire logic        view_drs_valid,
  input wire answer_t     view_drs,
  input wire logic        ctrl_drs_valid,
  input wire answer_t     ctrl_drs,
  input wire logic        direct_valid,
  input wire logic        direct_is_read,
  input wire resp_meta_t  direct_meta,
  input wire logic        ndr_ready,
  input wire logic        drs_ready
);
  ram_flip_t  ram_flip;
  ram_fault_t ram_fault;
  logic       plain_ndr_ready, ctrl_ndr_ready, plain_drs_ready, gather_drs_ready, view_drs_ready;
  logic       ctrl_drs_ready, direct_ready, ndr_valid, drs_valid;
  s2m_ndr_t   ndr;
  s2m_drs_t   drs;
  logic [7:0] ndr_waiting, drs_waiting;
  logic       ndr_done, ndr_batch, drs_done, drs_batch;

  `NF_FORMAL_RESET

  assign ram_flip = '0;

  nf_respond #(
    .REGIONS(1), .NDR_DEPTH(NDR_DEPTH), .DRS_DEPTH(DRS_DEPTH), .ECC(0)
  ) dut (.*);

  assign ndr_waiting = 8'(dut.u_ndr.count_q);

  // ---- who is told that its answer was taken, lowest bit first ----------------------------------
  logic [3:0] ndrs, ndr_told;
  logic [5:0] drss, drs_told;
  resp_meta_t ndr_from, drs_from;

  assign ndrs     = {direct_valid && !direct_is_read, ctrl_ndr_valid, plain_ndr_valid,
                     engine_ndr_valid};
  assign ndr_told = ndrs & {direct_ready, ctrl_ndr_ready, plain_ndr_ready, 1'b1};
  assign drss     = {direct_valid && direct_is_read, ctrl_drs_valid, view_drs_valid,
                     gather_drs_valid, plain_drs_valid, engine_drs_valid};
  assign drs_told = drss & {direct_ready, ctrl_drs_ready, view_drs_ready, gather_drs_ready,
                            plain_drs_ready, 1'b1};
  assign ndr_from = ndr_told[0] ? engine_ndr_meta : ndr_told[1] ? plain_ndr_meta :
                    ndr_told[2] ? ctrl_ndr_meta : direct_meta;
  assign drs_from = drs_told[0] ? engine_drs.meta : drs_told[1] ? plain_drs.meta :
                    drs_told[2] ? gather_drs.meta : drs_told[3] ? view_drs.meta :
                    drs_told[4] ? ctrl_drs.meta : direct_meta;

  // ---- DevLoad: the worst level whose threshold is reached; of a region in FALLBACK, 2 at least -
  logic [1:0] level;

  always_comb begin
    level = 2'd0;
    for (int i = 0; i < 3; i++)
      if (devload_threshold[8*i +: 8] != 8'd0 && 32'(occupancy) >= 32'(devload_threshold[8*i +: 8]))
        level = 2'(i + 1);
  end

  function automatic logic [1:0] told_load(input logic [1:0] now, input logic falls_back);
    return (falls_back && now < 2'd2) ? 2'd2 : now;
  endfunction

  `NF_ASSUME(Places_M, (ndrs == '0 || 32'(ndr_waiting) < NDR_DEPTH) &&
                       (drss == '0 || 32'(drs_waiting) < DRS_DEPTH))
  `NF_ASSUME(PlainWaitsAtMemory_M, !(engine_ndr_valid && plain_ndr_valid))

  `NF_ASSERT(OneNdr_A, $onehot0(ndr_told) && (ndr_told != '0) == (ndrs != '0))
  `NF_ASSERT(OneDrs_A, $onehot0(drs_told) && (drs_told != '0) == (drss != '0))
  `NF_ASSERT(Stored_A, dut.ndr_push == (ndrs != '0) && dut.drs_push == (drss != '0))
  `NF_ASSERT_NEVER(AnotherNdr_A, ndr_told != '0 && (dut.ndr_in.tag != ndr_from.tag ||
                                                    dut.ndr_in.ldid != ndr_from.ldid))
  `NF_ASSERT_NEVER(AnotherDrs_A, drs_told != '0 && (dut.drs_in.tag != drs_from.tag ||
                                                    dut.drs_in.ldid != drs_from.ldid))
  `NF_ASSERT_NEVER(NdrLoad_A, ndr_told != '0 && dut.ndr_in.devload !=
                              told_load(level, ndr_from.in_region && fallback))
  `NF_ASSERT_NEVER(DrsLoad_A, drs_told != '0 && dut.drs_in.devload !=
                              told_load(level, drs_from.in_region && fallback))
  // The control window is left out: a commit does not wait for it.
  `NF_ASSERT(NdrDone_A, ndr_done == ((ndr_told & 4'b1011) != '0)
                        && (!ndr_done || ndr_batch == ndr_from.batch))
  `NF_ASSERT(DrsDone_A, drs_done == ((drs_told & 6'b101111) != '0)
                        && (!drs_done || drs_batch == drs_from.batch))
  `NF_ASSERT(Offered_A, ndr_valid == (ndr_waiting != '0) && drs_valid == (drs_waiting != '0))

  `NF_COVER(AllAsk_C, drss == '1 && ndr_told[1] && ctrl_ndr_valid)
  `NF_COVER(Last_C, drs_told[5] && drs_waiting == 8'd1 && ndr_told[2])
endmodule

`default_nettype wire
