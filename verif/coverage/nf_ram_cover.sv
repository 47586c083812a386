// SPDX-License-Identifier: Apache-2.0
// White-box functional coverage of the protected RAMs: when a damaged word is found, and where.
//
// Bound into nf_controller under Verilator (white_box.toml names the bins); conventions as in
// nf_engine_cover.sv.

`default_nettype none
`include "nf_cover.svh"

/* verilator coverage_off */
/* verilator lint_off UNUSEDSIGNAL */

module nf_ram_cover
  import nf_core_pkg::*;
  import nf_ram_pkg::*;
(
  input wire logic                         clk,
  input wire logic                         rst_n,
  input wire logic [RAMS*RAM_FAULT_W-1:0] faults,
  input wire logic                         captured,  // RAS_ERROR holds an error
  input wire logic                         commits,   // a commit or a move waits for others
  input wire logic                         victim2,   // S2: a line leaves its slot
  input wire logic                         stored2,   // S2: memory has answered a store
  input wire logic                         lost,      // EVICT: the line leaves as a lost one
  input wire logic                         do_fill,
  input wire logic                         early,     // a store that is in memory, or will be
  input wire op_kind_e                     deferred   // kind of the oldest deferred operation
);
  logic [RAMS-1:0] bad, corrected;
  for (genvar i = 0; i < RAMS; i++) begin : g_fault
    assign bad[i]       = faults[i*RAM_FAULT_W + RAM_FAULT_W - 1];
    assign corrected[i] = faults[i*RAM_FAULT_W + RAM_FAULT_W - 2];
  end

  // ---- when: the first, after one that RAS_ERROR holds, during a commit; one that was corrected
  logic [RAMS-1:0]      moment_on;
  logic [RAMS-1:0][5:0] moment_at;
  assign moment_on = bad | corrected;
  for (genvar i = 0; i < RAMS; i++) begin : g_moment
    assign moment_at[i] = {4'(i), !bad[i] ? 2'd3 : commits ? 2'd2 : {1'b0, captured}};
  end
  `NF_POINTS(moment, 6, RAMS)

  // ---- where: what a word that is lost was used for ---------------------------------------------
  logic       write;
  logic [4:0] place_on;
  logic [4:0][3:0] place_at;
  assign write       = deferred == OP_CONTRIBUTE || deferred == OP_FP_STORE;
  assign place_on    = bad[RAM_DEFERRED:RAM_PLANES];
  assign place_at[0] = victim2 ? 4'd1 : 4'd0;
  assign place_at[1] = victim2 ? 4'd4 : stored2 ? 4'd3 : 4'd2;
  assign place_at[2] = lost ? 4'd5 : 4'd6;
  assign place_at[3] = !do_fill ? 4'd9 : early ? 4'd8 : 4'd7;
  assign place_at[4] = write ? 4'd10 : 4'd11;
  `NF_POINTS(place, 4, 5)
endmodule

bind nf_controller nf_ram_cover u_ram_cover (
  .clk, .rst_n,
  .faults   (ram_faults),
  .captured (u_regs.u_ras.valid_q),
  .commits  (u_core.u_regions.hold || u_core.u_regions.hold_all),
  .victim2  (u_core.u_engine.miss2_q),
  .stored2  (u_core.u_engine.is_stored2),
  .lost     (u_core.u_engine.u_evict.lost),
  .do_fill  (u_core.u_engine.u_lookup.do_fill),
  .early    (u_core.u_engine.u_lookup.fill_early),
  .deferred (u_core.u_engine.u_lookup.deferred_raw.kind)
);

/* verilator lint_on UNUSEDSIGNAL */
/* verilator coverage_on */
`default_nettype wire
