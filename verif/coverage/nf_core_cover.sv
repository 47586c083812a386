// SPDX-License-Identifier: Apache-2.0
// White-box functional coverage of the core: what a commit meets, moves of the control window and
// whose turn it is on the register bus, the record initialiser, and how long each channel of the
// memory port is held.
//
// Bound into nf_core under Verilator; conventions as in nf_engine_cover.sv.

`default_nettype none
`include "nf_cover.svh"

/* verilator coverage_off */
/* verilator lint_off UNUSEDSIGNAL */

module nf_core_cover
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
  parameter int REGIONS  = 8,
  parameter int NUMBER_W = 32, // bits of a generation in a record
  parameter int GEN_W    = 32  // bits that count
) (
  input wire logic         clk,
  input wire logic         rst_n,

  // Commits
  input wire logic         commit_begins,
  input wire logic         commit_epoch, // it is of a region: no CLOSE, no move of the window
  input wire logic [3:0]   commit_region,
  input wire region_desc_t commit_desc,
  input wire logic         waiting,      // operations parked in the engine
  input wire logic         filling,
  input wire logic         evicting,
  input wire logic         storing,
  input wire logic         gathering,
  input wire logic         plain,
  input wire logic         unsent,       // answers that wait for the link
  input wire logic         init_busy,
  input wire logic         init_active,
  input wire logic [3:0]   init_region,

  // Control window
  input wire logic         moves,        // it moves, or stays where it is told to be
  input wire logic         was_on,
  input wire logic         is_on,
  input wire logic         moves_away,   // to another place
  input wire logic         committing,
  input wire ctrl_bus_t    bus,
  input wire logic         bus_free,     // of AXI4-Lite
  input wire logic         ctrl_takes,
  input wire logic         ctrl_waits,
  input wire logic         ctrl_writes,  // what is taken or waits is a write
  input wire logic         ctrl_busy,

  // Record initialiser
  input wire logic         init_start,
  input wire logic         init_cancel,
  input wire logic         init_restart,
  input wire logic         init_hold,
  input wire logic         init_several, // more than one region waits
  input wire logic         init_skips,   // it passes a group that an eviction has marked
  input wire logic         evict_first,  // an eviction overwrites its group before it
  input wire logic         fill_asks,
  input wire logic         fill_waits,
  input wire logic         evict_asks,
  input wire logic         evict_waits,
  input wire logic [REGIONS-1:0]                apply,
  input wire logic [REGIONS-1:0][NUMBER_W-1:0] gen,

  // Memory port: valid, ready and ID of AW, W, B, AR, R
  input wire logic [4:0]      valid,
  input wire logic [4:0]      ready,
  input wire logic [4:0][1:0] id,
  input wire logic            r_last
);
  // ---- what is under way when a commit begins ---------------------------------------------------
  logic [9:0]      under_way;
  logic [9:0]      meets_on;
  logic [9:0][5:0] meets_at;
  assign under_way = {init_active && init_region == commit_region, init_busy, unsent, plain,
                      gathering, storing, evicting, filling, waiting, 1'b0};
  for (genvar k = 0; k < 10; k++) begin : g_meets
    assign meets_on[k] = commit_begins && commit_epoch && (k == 0 ? under_way == '0 : under_way[k]);
    assign meets_at[k] = {4'(k), `NF_COVER_MODE(commit_desc.mode)};
  end
  `NF_POINTS(meets, 6, 10)

  // ---- the control window: where it goes, and whose turn it is on the register bus --------------
  logic       busy_q, move_on;
  logic [3:0] move_at;
  always_ff @(posedge clk) begin
    if (!rst_n) busy_q <= 1'b0;
    else if (commit_begins) busy_q <= under_way != '0;
  end
  assign move_on = moves;
  assign move_at = {was_on, !is_on ? 2'd0 : moves_away ? 2'd1 : 2'd2, busy_q};
  `NF_POINT(move, 4)
  logic [8:0]      turn_on;
  logic [8:0][3:0] turn_at;
  assign turn_on = {committing && !bus.lock && bus.read,
                    committing && !bus.lock && ctrl_waits && ctrl_writes,
                    committing && bus.lock,
                    ctrl_waits && ctrl_writes && ctrl_busy,
                    ctrl_waits && !ctrl_writes,
                    bus.read && !bus_free,
                    bus.lock && !bus_free,
                    ctrl_waits && ctrl_writes && !ctrl_busy,
                    ctrl_takes && ctrl_writes};
  for (genvar k = 0; k < 9; k++) begin : g_turn
    assign turn_at[k] = 4'(k);
  end
  `NF_POINTS(turn, 4, 9)

  // ---- the record initialiser -------------------------------------------------------------------
  logic [9:0]      init_on;
  logic [9:0][3:0] init_at;
  logic            hold_q, several_q;
  logic [REGIONS-1:0] wraps;
  always_ff @(posedge clk) begin
    hold_q    <= rst_n && init_hold && init_active;
    several_q <= rst_n && init_several;
  end
  for (genvar r = 0; r < REGIONS; r++) begin : g_wraps
    assign wraps[r] = apply[r] && &gen[r][GEN_W-1:0];
  end
  assign init_on = {evict_first, init_skips, |wraps, init_active && init_hold && !hold_q,
                    init_several && !several_q, init_restart && init_cancel,
                    init_restart && init_start,
                    evict_asks && evict_waits, fill_asks && fill_waits, init_start};
  for (genvar k = 0; k < 10; k++) begin : g_init
    assign init_at[k] = 4'(k);
  end
  `NF_POINTS(init, 4, 10)

  // ---- how long a beat waits on each channel: 0, 1, 2..7, 8 clocks and more ---------------------
  logic [4:0][3:0] held_q;
  logic [4:0]      held_on;
  logic [4:0][6:0] held_at;
  for (genvar c = 0; c < 5; c++) begin : g_held
    logic [1:0] length;
    always_ff @(posedge clk) begin
      if (!rst_n || !valid[c] || ready[c]) held_q[c] <= '0;
      else if (held_q[c] != 4'd15) held_q[c] <= held_q[c] + 4'd1;
    end
    assign length     = held_q[c] < 4'd2 ? 2'(held_q[c]) : held_q[c] < 4'd8 ? 2'd2 : 2'd3;
    assign held_on[c] = valid[c] && ready[c];
    assign held_at[c] = {3'(c), id[c], length};
  end
  `NF_POINTS(held, 7, 5)

  // ---- read data of others between two beats of one record --------------------------------------
  logic            inside_q;
  logic [0:0]      cut_on;
  logic [0:0][1:0] cut_at;
  always_ff @(posedge clk) begin
    if (!rst_n) inside_q <= 1'b0;
    else if (valid[4] && ready[4] && id[4] == 2'd0) inside_q <= !r_last;
  end
  assign cut_on[0] = inside_q && valid[4] && ready[4] && id[4] != 2'd0;
  assign cut_at[0] = id[4];
  `NF_POINTS(cut, 2, 1)
endmodule

bind nf_core nf_core_cover #(
  .REGIONS(REGIONS), .NUMBER_W($bits(gen) / REGIONS), .GEN_W(GEN_W)
) u_cover (
  .clk, .rst_n,
  .commit_begins (commit_valid && u_regions.state_q == COMMIT_IDLE),
  .commit_epoch  (!commit_close && !commit_move),
  .commit_region, .commit_desc,
  .apply, .gen,
  .moves         (u_regions.u_place.move && u_regions.u_place.code == COMMIT_OK),
  .was_on        (u_regions.u_place.on),
  .is_on         (commit_place != '0),
  .moves_away    (commit_place != u_regions.u_place.base),
  .committing    (commit_valid),
  .bus           (ctrl_bus),
  .bus_free      (ctrl_free),
  .ctrl_takes    (u_ctrl.take),
  .ctrl_waits    (u_ctrl.op_valid && !u_ctrl.op_ready),
  .ctrl_writes   (ctrl_op.write),
  .ctrl_busy     (u_ctrl.busy_q),
  .waiting       (|u_engine.u_lookup.waited || u_engine.u_lookup.deferred_valid),
  .filling       (u_engine.u_fill.head_valid || u_engine.u_fill.track_valid),
  .evicting      (u_engine.evict_flight != '0),
  .storing       (store_valid || u_store.u_track.count_q != '0),
  .gathering     (gather_valid || u_gather.t_valid),
  .plain         (plain_valid || wr_valid[1] || rd_valid[1] || u_plain.rd_track_valid
                  || u_plain.u_writes.count_q != '0),
  .unsent        (ndr_valid || drs_valid),
  .init_busy,
  .init_active   (u_init.active_q),
  .init_region   (u_init.region_q),
  .init_start    (|init_start),
  .init_cancel   (|init_cancel),
  .init_restart  (u_init.restart),
  .init_hold,
  .init_several  (u_init.active_q && |u_init.pending_q),
  .init_skips    (u_init.probed_q && u_init.probe_marked),
  .evict_first   (u_engine.u_evict.late_q && u_engine.u_evict.first),
  .fill_asks     (u_engine.u_fill.head_valid),
  .fill_waits,
  .evict_asks    (u_engine.u_evict.unsent_q != '0),
  .evict_waits,
  .valid         ({m_axi_rvalid, m_axi_arvalid, m_axi_bvalid, m_axi_wvalid, m_axi_awvalid}),
  .ready         ({m_axi_rready, m_axi_arready, m_axi_bready, m_axi_wready, m_axi_awready}),
  .id            ({m_axi_rid[1:0], m_axi_arid[1:0], m_axi_bid[1:0], 2'd0,
                   m_axi_awid[1:0]}),  // W has none
  .r_last        (m_axi_rlast)
);

/* verilator lint_on UNUSEDSIGNAL */
/* verilator coverage_on */
`default_nettype wire
