// SPDX-License-Identifier: Apache-2.0
// The device core: admission, decode, engine, FP32 path, plain memory, answers.
//
// Message ports are valid/ready towards nf_link; the commit port belongs to nf_regs (see
// nf_regions). AXI IDs: writes 0 eviction, 1 plain, 2 FP32 store, 3 record initialiser; reads 0
// fill, 1 plain, 2 FP32 gather.

`default_nettype none
`include "nf_assert.svh"
`include "nf_axi_ports.svh"

module nf_core
  import nf_pkg::*;
  import nf_core_pkg::*;
  import nf_fp32_pkg::*;
  import nf_ram_pkg::*;
#(
  parameter int REGIONS        = 8,
  parameter int SLOTS          = 256,
  parameter int WAYS           = 8,
  parameter int PINS           = 64,
  parameter int CNT_W          = 8,
  parameter int MEM_LINES_LOG2 = 20,
  parameter int GEN_W          = 32,
  parameter int MISS_DEPTH     = 64,
  parameter int WRITTEN_LOG2   = 12,
  parameter int ECC            = 1, // nf_ram_pkg
  parameter int TERN5          = 0,
  parameter int ECP5           = 0,
  parameter int INJECT_DATA    = 0  // nf_ram_guard
) (
  input  wire logic               clk,          // clock, rising edge
  input  wire logic               rst_n,        // asynchronous reset, active low
  input  wire ram_flip_t          ram_flip,     // bit of a protected RAM to flip (RAS_INJECT)
  output logic [8*RAM_FAULT_W-1:0] ram_faults,  // RAM_PLANES to RAM_ANSWERS

  input  wire logic               req_valid,  // Req valid
  output logic                    req_ready,  // Req taken
  input  wire m2s_req_t           req,        // Req of the host
  input  wire logic               rwd_valid,  // RwD valid
  output logic                    rwd_ready,  // RwD taken
  input  wire m2s_rwd_t           rwd,        // RwD of the host, with its whole line
  output logic                    ndr_valid,  // completion valid
  input  wire logic               ndr_ready,  // completion taken
  output s2m_ndr_t                ndr,        // completion (NDR)
  output logic                    drs_valid,  // answer with data valid
  input  wire logic               drs_ready,  // answer with data taken
  output s2m_drs_t                drs,        // answer with data

  input  wire logic               drs_gone,  // every DRS that the link has taken has left it

  input  wire logic               commit_valid,       // commit asked for; held until `commit_done`
  input  wire logic               commit_close,       // close the region instead
  input  wire logic [3:0]         commit_region,      // region of the commit
  input  wire region_desc_t       commit_desc,        // descriptor to make active
  input  wire logic [31:0]        commit_epoch,       // epoch to set
  input  wire logic               commit_move,        // move the control window instead
  input  wire logic [LADDR_W-1:0] commit_place,       // line address asked for the control window
  output logic                    commit_done,        // the commit has ended
  output commit_code_e            commit_code,        // its result, valid with `commit_done`
  output logic                    init_busy,  // records of some region are still being initialised
  output logic [REGIONS-1:0]      region_committed,   // regions with an active descriptor
  output logic [REGIONS-1:0]      region_done,        // regions whose lines are all complete
  output logic [REGIONS-1:0]      region_closed,      // regions whose round is closed
  output logic                    region_done_set,    // strobe: a region has become done
  // Strobe: misses of the region exceed the threshold.
  output logic [REGIONS-1:0]      fallback_set,
  output logic [REGIONS-1:0]      region_saturated,   // regions in which a count has saturated
  output logic [REGIONS-1:0]      region_illegal,     // regions in which an illegal code was seen
  output logic [REGIONS*32-1:0]   region_complete,    // complete lines, 32 bits a region
  input  wire logic [REGIONS-1:0] fallback,           // regions in FALLBACK
  input  wire logic [8:0]         cap_window,         // contributions in the window; 0: no check
  input  wire logic [8:0]         cap_threshold,      // misses in the window that FALLBACK allows
  input  wire logic [23:0]        devload_threshold,  // {severe, moderate, optimal}; 0: level off
  output core_events_t            events,  // event strobes and small counts
  output access_error_t           access_error,  // first cause of a refused access, with its strobe

  // Registers through the control window: see nf_ctrl_window.
  input  wire logic [15:0]        ctrl_ld_mask,    // LD-IDs that may write every register
  input  wire logic [REGIONS*OWNER_W-1:0] owners,  // owner of each region (owner_t)
  output ctrl_bus_t               ctrl_bus,        // request of the control window
  input  wire logic               ctrl_free,       // the control window may begin a write
  input  wire logic               ctrl_done,       // its write has ended
  input  wire logic [LINE_W-1:0]  ctrl_read,       // registers that it reads: one line

  `NF_AXI_WRITE_PORTS(MEM_LINES_LOG2+6),
  `NF_AXI_READ_PORTS(MEM_LINES_LOG2+6)
);
  if (MEM_LINES_LOG2 < 8 || MEM_LINES_LOG2 > 38) begin : g_bad_mem
    initial $fatal(1, "nf_core: MEM_LINES_LOG2 must be 8..38");
  end

  // ---- regions ----------------------------------------------------------------------------------
  logic                       begins, hold, hold_new, closing, gone, settled, freeze, still;
  logic                       init_hold, init_writes, gather_end_valid, hold_all;
  logic [3:0]                 init_region;
  logic [MADDR_W-1:0]         hold_end;
  logic [REGIONS-1:0]         apply, init_start, init_cancel, untrusted_q;
  logic [DESCS_W-1:0]         desc;
  logic [REGIONS*MADDR_W-1:0] state_end;
  logic [REGIONS*REC_GEN_W-1:0] gen;
  logic [REGIONS*32-1:0]      epoch;
  engine_events_t             engine_events;
  logic [8:0]                 illegal_codes;
  logic [3:0]                 event_region;
  logic [5:0]                 event_worker;
  logic                       reads_gone, ctrl_on;
  logic [LADDR_W-1:0]         ctrl_base;

  nf_regions #(
    .REGIONS(REGIONS), .CNT_W(CNT_W),
    .MEM_LINES_LOG2(MEM_LINES_LOG2), .GEN_W(GEN_W)
  ) u_regions (
    .clk, .rst_n,
    .commit_valid, .commit_close,
    .commit_region, .commit_desc,
    .commit_epoch,
    .commit_move, .commit_place,
    .commit_done, .commit_code,
    .begins, .hold,
    .hold_new, .hold_end,
    .hold_all,
    .closing, .gone,
    .reads_gone, .settled (settled && !gather_end_valid),
    .init_hold,
    .init_writes (init_writes && init_region == commit_region),
    .freeze, .still,
    .untrusted (untrusted_q),
    .apply, .init_start,
    .init_cancel,
    .committed (region_committed),
    .desc, .state_end,
    .gen, .epoch,
    .closed    (region_closed), .ctrl_on,
    .ctrl_base,
    .line_complete (engine_events.line_complete),
    .saturated_set (engine_events.saturated),
    .illegal_set   (engine_events.illegal),
    .event_region,
    .complete  (region_complete),
    .done      (region_done),
    .done_set  (region_done_set),
    .saturated (region_saturated),
    .illegal   (region_illegal)
  );

  // ---- admission and decode ---------------------------------------------------------------------
  logic          adm_valid, adm_ready;
  access_t       adm_msg;
  logic [7:0]    ndr_reserved, drs_reserved, drs_waiting;
  logic          batch, ndr_done, ndr_batch, drs_done, drs_batch, drs_stop, drs_offered;
  logic          op_valid, op_ready, plain_valid, plain_ready, direct_valid, direct_ready;
  engine_op_t    op;
  plain_op_t     plain_op;
  resp_meta_t    direct_meta;
  logic          refused, unmapped, unsupported, direct_is_read;
  logic          view_valid, view_ready, ctrl_valid, ctrl_ready;
  logic [2:0]    view_selector;
  ctrl_op_t      ctrl_op;

  nf_admit #(.NDR_DEPTH(NDR_OWED), .DRS_DEPTH(DRS_OWED)) u_admit (
    .clk, .rst_n,
    .req_valid, .req_ready,
    .req, .rwd_valid,
    .rwd_ready, .rwd,
    .out_valid (adm_valid), .out_ready (adm_ready),
    .out_msg (adm_msg),
    .ndr_sent (ndr_valid && ndr_ready), .drs_sent (drs_valid && drs_ready),
    .ndr_reserved, .drs_reserved
  );

  nf_decode #(.REGIONS(REGIONS), .MEM_LINES_LOG2(MEM_LINES_LOG2)) u_decode (
    .clk, .rst_n,
    .committed (region_committed), .desc,
    .state_end,
    .held_all (hold_all),
    .held (hold), .held_new (hold_new),
    .held_region (commit_region), .held_desc (commit_desc),
    .held_end (hold_end), .batch,
    .ctrl_on,
    .ctrl_base, .ctrl_ld_mask,
    .owners,
    .in_valid (adm_valid), .in_ready (adm_ready),
    .in_msg (adm_msg),
    .engine_valid (op_valid), .engine_ready (op_ready),
    .engine_op (op),
    .plain_valid, .plain_ready,
    .plain_op,
    .view_valid, .view_ready,
    .view_selector, .ctrl_valid,
    .ctrl_ready, .ctrl_op,
    .direct_valid, .direct_ready,
    .direct_is_read, .direct_meta,
    .error (access_error), .refused,
    .unmapped, .unsupported
  );

  // ---- engine -----------------------------------------------------------------------------------
  logic                eng_ndr_valid, eng_drs_valid;
  resp_meta_t          eng_ndr_meta;
  answer_t             eng_drs;
  logic                store_valid, store_ready, gather_valid, gather_ready;
  fp_store_t           store;
  gather_op_t          gather;
  logic                gather_end_ready;
  gather_end_t         gather_end;
  fp_stored_t          stored;
  logic [3:0]          evict_failed_region, lookup_region;
  line_id_t            fill_line, evict_line;
  line_id_t            marked_line, probe_line;
  logic                fill_waits, evict_waits, marked_ahead, evict_failed;
  logic                probe, probe_ready, probe_marked;
  logic [REGIONS-1:0]  fresh, doubt;
  logic                slot_hit, slot_miss, lookup_contribution, eviction, fill;

  logic [3:0]          wr_valid, wr_ready, wr_last, wr_b, wr_b_stall, wr_poison;
  logic                wr_b_err;
  logic [LADDR_W-1:0]  evict_addr, plain_waddr, store_waddr, init_waddr;
  logic [7:0]          evict_len;
  logic [LINE_W-1:0]   evict_data, plain_wdata, store_wdata;
  logic [BE_W-1:0]     plain_wstrb, store_wstrb;
  logic [2:0]          rd_valid, rd_ready, rd_r_valid, rd_r_ready;
  logic [LADDR_W-1:0]  fill_addr, plain_raddr, gather_raddr;
  logic [7:0]          fill_len;
  read_beat_t          r_beat;
  logic                read_error, read_poison;

  // Planes above the seven that count 64 workers are always 0 unless an element counts twice
  // (G_TERN5): the engine leaves them out. Records have the same planes.
  nf_engine #(
    .REGIONS(REGIONS), .SLOTS(SLOTS), .WAYS(WAYS), .PINS(PINS),
    .CNT_W((TERN5 != 0) ? CNT_W : counting_planes(CNT_W)), .MEM_LINES_LOG2(MEM_LINES_LOG2),
    .MISS_DEPTH(MISS_DEPTH), .WRITTEN_LOG2(WRITTEN_LOG2),
    .ECC(ECC), .TERN5(TERN5),
    .ECP5(ECP5), .INJECT_DATA(INJECT_DATA),
    .OPS(NDR_OWED + DRS_OWED)
  ) u_engine (
    .clk, .rst_n,
    .ram_flip, .ram_faults (ram_faults[7*RAM_FAULT_W-1:0]),
    .desc, .gen,
    .apply, .epoch,
    .closed (region_closed), .untrusted (untrusted_q),
    .settle (commit_region), .settled,
    .freeze, .still,
    .op_valid, .op_ready,
    .op,
    .ndr_valid (eng_ndr_valid), .ndr_meta (eng_ndr_meta),
    .drs_valid (eng_drs_valid), .drs (eng_drs),
    .store_valid, .store_ready,
    .store, .store_bad (wr_poison[2]),
    .stored_valid (wr_b[2]), .stored_err (wr_b_err),
    .stored,
    .gather_valid, .gather_ready,
    .gather,
    .end_valid (gather_end_valid), .end_ready (gather_end_ready),
    .gather_end,
    .fresh, .doubt,
    .fill_line, .fill_waits,
    .evict_line, .evict_waits,
    .marked_line, .marked_ahead,
    .probe, .probe_ready,
    .probe_line, .probe_marked,
    .b_valid (wr_b[0]), .b_err (wr_b_err),
    .wr_valid (wr_valid[0]), .wr_ready (wr_ready[0]),
    .wr_addr (evict_addr), .wr_len (evict_len),
    .wr_data (evict_data), .wr_poison (wr_poison[0]),
    .wr_last (wr_last[0]),
    .ar_valid (rd_valid[0]), .ar_ready (rd_ready[0]),
    .ar_addr (fill_addr), .ar_len (fill_len),
    .read_busy (m_axi_rvalid), .r_valid (rd_r_valid[0]),
    .r_ready (rd_r_ready[0]), .r_beat,
    .evict_failed, .evict_failed_region,
    .slot_hit, .slot_miss,
    .lookup_contribution, .lookup_region,
    .eviction, .fill,
    .events (engine_events), .event_region,
    .event_worker, .illegal_codes
  );

  nf_capacity #(.REGIONS(REGIONS)) u_capacity (
    .clk, .rst_n,
    .clear (apply), .window (cap_window),
    .threshold (cap_threshold),
    .contribution ((slot_hit || slot_miss) && lookup_contribution),
    .miss (slot_miss), .region (lookup_region),
    .exceeded (fallback_set)
  );

  // ---- status as hosts read it ------------------------------------------------------------------
  logic    view_drs_valid, view_drs_ready;
  answer_t view_drs;
  nf_region_status #(.REGIONS(REGIONS)) u_status (
    .clk, .rst_n,
    .clear (apply), .refused,
    .engine_events, .event_region,
    .event_worker,
    .epoch, .complete (region_complete),
    .done (region_done), .fallback,
    .op_valid (view_valid), .op_ready (view_ready),
    .op_selector (view_selector),
    .op_meta (direct_meta),
    .drs_valid (view_drs_valid), .drs_ready (view_drs_ready),
    .drs (view_drs)
  );

  // ---- registers as hosts access them -----------------------------------------------------------
  logic       ctrl_ndr_valid, ctrl_ndr_ready, ctrl_drs_valid, ctrl_drs_ready;
  resp_meta_t ctrl_ndr_meta;
  answer_t    ctrl_drs;

  nf_ctrl_window u_ctrl (
    .clk, .rst_n,
    .op_valid (ctrl_valid), .op_ready (ctrl_ready),
    .op (ctrl_op),
    .bus (ctrl_bus), .bus_free (ctrl_free),
    .bus_done (ctrl_done), .bus_line (ctrl_read),
    .ndr_valid (ctrl_ndr_valid), .ndr_ready (ctrl_ndr_ready),
    .ndr_meta (ctrl_ndr_meta),
    .drs_valid (ctrl_drs_valid), .drs_ready (ctrl_drs_ready),
    .drs (ctrl_drs)
  );

  // ---- record initialiser -----------------------------------------------------------------------
  logic       init_failed;

  nf_record_init #(
    .REGIONS(REGIONS), .CNT_W(CNT_W), .MARKS_LOG2(WRITTEN_LOG2),
    .MEM_LINES_LOG2(MEM_LINES_LOG2)
  ) u_init (
    .clk, .rst_n,
    .hold (init_hold), .others (|wr_valid[2:0]),
    .start (init_start), .cancel (init_cancel),
    .desc, .fresh,
    .busy (init_busy), .busy_writes (init_writes),
    .failed (init_failed), .region (init_region),
    .a (fill_line), .a_waits (fill_waits),
    .b (evict_line), .b_waits (evict_waits),
    .c (marked_line), .c_ahead (marked_ahead),
    .probe, .probe_ready,
    .probe_line, .probe_marked,
    .wr_valid (wr_valid[3]), .wr_ready (wr_ready[3]),
    .wr_addr (init_waddr),
    .b_valid (wr_b[3]), .b_err (wr_b_err)
  );

  // A failed state write leaves an unknown record: no record of the region counts until a commit.
  for (genvar r = 0; r < REGIONS; r++) begin : g_untrusted
    always_ff @(posedge clk or negedge rst_n) begin
      if (!rst_n) untrusted_q[r] <= 1'b0;
      else if (apply[r]) untrusted_q[r] <= 1'b0;
      else if (doubt[r] || (evict_failed && evict_failed_region == 4'(r))
               || (init_failed && init_region == 4'(r))) untrusted_q[r] <= 1'b1;
    end
  end

  // ---- FP32 path --------------------------------------------------------------------------------
  answer_t gather_drs;
  logic    gather_drs_valid, gather_drs_ready;

  nf_fp32_store #(.TRACK(NDR_OWED)) u_store (
    .clk, .rst_n,
    .store_valid, .store_ready,
    .store,
    .wr_valid (wr_valid[2]), .wr_ready (wr_ready[2]),
    .wr_addr (store_waddr),
    .wr_data (store_wdata), .wr_strb (store_wstrb),
    .b_valid (wr_b[2]),
    .stored
  );

  nf_fp32_gather #(.MEM_LINES_LOG2(MEM_LINES_LOG2)) u_gather (
    .clk, .rst_n,
    .desc,
    .op_valid (gather_valid), .op_ready (gather_ready),
    .op (gather),
    .ar_valid (rd_valid[2]), .ar_ready (rd_ready[2]),
    .ar_addr (gather_raddr),
    .r_valid (rd_r_valid[2]), .r_ready (rd_r_ready[2]),
    .r_beat,
    .drs_valid (gather_drs_valid), .drs_ready (gather_drs_ready),
    .drs (gather_drs),
    .end_valid (gather_end_valid), .end_ready (gather_end_ready),
    .gather_end
  );

  // ---- plain memory -----------------------------------------------------------------------------
  resp_meta_t plain_ndr_meta;
  answer_t    plain_drs;
  logic       plain_drs_valid, plain_drs_ready;

  nf_plain #(.TRACK(NDR_OWED)) u_plain (
    .clk, .rst_n,
    .op_valid (plain_valid), .op_ready (plain_ready),
    .op (plain_op),
    .wr_valid (wr_valid[1]), .wr_ready (wr_ready[1]),
    .wr_addr (plain_waddr),
    .wr_data (plain_wdata), .wr_strb (plain_wstrb),
    .wr_poison (wr_poison[1]),
    .b_valid (wr_b[1]),
    .ar_valid (rd_valid[1]), .ar_ready (rd_ready[1]),
    .ar_addr (plain_raddr),
    .r_valid (rd_r_valid[1]), .r_ready (rd_r_ready[1]),
    .r_beat,
    .ndr_meta (plain_ndr_meta),
    .drs_valid (plain_drs_valid), .drs_ready (plain_drs_ready),
    .drs (plain_drs)
  );

  // ---- device memory ----------------------------------------------------------------------------
  logic plain_ndr_ready;
  assign wr_poison[3] = 1'b0;
  assign wr_last[3:1] = 3'b111;
  assign wr_b_stall   = {2'b00, !plain_ndr_ready, 1'b0};

  nf_axi_write #(.CLIENTS(4), .ADDR_W(MEM_LINES_LOG2 + 6)) u_write (
    .clk, .rst_n,
    .c_valid (wr_valid), .c_ready (wr_ready),
    .c_addr  ({init_waddr, store_waddr, plain_waddr, evict_addr}),
    .c_len   ({8'd0, 8'd0, 8'd0, evict_len}),
    .c_data  ({LINE_W'(0), store_wdata, plain_wdata, evict_data}),
    .c_strb  ({{BE_W{1'b1}}, store_wstrb, plain_wstrb, {BE_W{1'b1}}}),
    .c_poison (wr_poison), .c_last (wr_last),
    .b_valid (wr_b), .b_err (wr_b_err),
    .b_stall (wr_b_stall),
    `NF_AXI_WRITE_CONNECT
  );

  nf_axi_read #(.CLIENTS(3), .ADDR_W(MEM_LINES_LOG2 + 6)) u_read (
    .clk, .rst_n,
    .c_valid (rd_valid), .c_ready (rd_ready),
    .c_addr  ({gather_raddr, plain_raddr, fill_addr}),
    .c_len   ({8'd0, 8'd0, fill_len}),
    .r_valid (rd_r_valid), .r_ready (rd_r_ready),
    .r_beat,
    .error (read_error), .poisoned (read_poison),
    `NF_AXI_READ_CONNECT
  );

  // ---- answers ----------------------------------------------------------------------------------
  nf_respond #(
    .REGIONS(REGIONS), .NDR_DEPTH(NDR_OWED),
    .DRS_DEPTH(DRS_OWED), .ECC(ECC),
    .INJECT_DATA(INJECT_DATA)
  ) u_respond (
    .clk, .rst_n,
    .ram_flip, .ram_fault (ram_faults[7*RAM_FAULT_W +: RAM_FAULT_W]),
    .occupancy ({1'b0, ndr_reserved} + {1'b0, drs_reserved}),
    .devload_threshold, .fallback,
    .engine_ndr_valid (eng_ndr_valid), .engine_ndr_meta (eng_ndr_meta),
    .plain_ndr_valid (wr_b[1]), .plain_ndr_meta,
    .plain_ndr_ready,
    .engine_drs_valid (eng_drs_valid), .engine_drs (eng_drs),
    .plain_drs_valid, .plain_drs_ready,
    .plain_drs,
    .gather_drs_valid, .gather_drs_ready,
    .gather_drs,
    .view_drs_valid, .view_drs_ready,
    .view_drs,
    .ctrl_ndr_valid, .ctrl_ndr_ready,
    .ctrl_ndr_meta, .ctrl_drs_valid,
    .ctrl_drs_ready, .ctrl_drs,
    .direct_valid, .direct_ready,
    .direct_is_read, .direct_meta,
    .ndr_valid, .ndr_ready,
    .ndr, .drs_valid (drs_offered),
    .drs_ready (drs_ready && !drs_stop), .drs,
    .ndr_done, .ndr_batch,
    .drs_done, .drs_batch,
    .drs_waiting
  );
  assign drs_valid = drs_offered && !drs_stop;

  // ---- requests before a commit, and after it ---------------------------------------------------
  nf_drain u_drain (
    .clk, .rst_n,
    .start (begins),
    .taken (adm_valid && adm_ready && !ctrl_valid),
    .batch,
    .ndr_done, .ndr_batch,
    .drs_done, .drs_batch,
    .gone,
    .closing,
    .waiting (drs_waiting),
    .sent (drs_valid && drs_ready),
    .link_empty (drs_gone),
    .stop (drs_stop),
    .left (reads_gone)
  );

  // A poisoned write of plain memory and a poisoned contribution: two in one clock.
  logic       plain_taken;
  logic [1:0] poison_taken;
  assign plain_taken  = plain_valid && plain_ready && plain_op.write && plain_op.poison;
  assign poison_taken = 2'(engine_events.poison_received) + 2'(plain_taken);

  core_events_t seen;

  always_comb begin
    seen.slot_hit        = slot_hit;
    seen.slot_miss       = slot_miss;
    seen.eviction        = eviction;
    seen.fill            = fill;
    seen.duplicate       = engine_events.duplicate;
    seen.illegal_code    = illegal_codes;
    seen.early_read      = engine_events.early_read;
    seen.poison_received = poison_taken;
    seen.contribution    = engine_events.contribution;
    seen.late            = engine_events.late;
    seen.refused         = refused;
    seen.unmapped        = unmapped;
    seen.unsupported     = unsupported;
    seen.mem_read_error  = read_error;
    seen.mem_write_error = wr_b_err && |wr_b;
    seen.mem_poison      = read_poison;
    events               = seen;  // whole, so that its readers wake once
  end
endmodule

`default_nettype wire
