// SPDX-License-Identifier: Apache-2.0
//
// Control and status registers (map: hdl/regs/nf_regs.rdl, table: docs/registers.md).
//
// AXI4-Lite: see nf_axil_slave. An access to an address that is no register answers SLVERR.
//
// Commit: a write to a region's EPOCH with at least one strobe raises `commit_valid`; it is held,
// with `commit_region`, `commit_desc` and `commit_epoch` unchanged, until the core answers with
// `commit_done` (which may come in the first clock) and `commit_code`. The write response follows
// `commit_done`; no other write is started before it, reads go on. Writing 1 to a region's
// CTRL.CLOSE is the same with `commit_close`: the region is closed, and the code means nothing.
//
// Events (`core_events`, `link_events`, `link_status.error_kind`, `access_error`,
// `region_done_set`, `fallback_set`) are strobes of one clock; an event in the clock of a clear is
// not lost. The `region_*` levels are read as they are. `irq` is a level.

`default_nettype none
`include "nf_assert.svh"
`include "nf_axi_ports.svh"

module nf_regs
  import nf_pkg::*;
  import nf_regs_pkg::*;
#(
  parameter int REGIONS        = 8,
  parameter int SLOTS          = 64,
  parameter int CNT_W          = 8,
  parameter int MEM_LINES_LOG2 = 20,
  parameter int RETRY_DEPTH    = 64,
  parameter int REQ_CREDITS    = 64,
  parameter int RWD_CREDITS    = 32
) (
  input  wire logic                  clk,
  input  wire logic                  rst_n,

  `NF_AXIL_PORTS(12),

  output logic                       irq,

  input  wire logic                  link_up,
  input  wire link_status_t          link_status,
  input  wire link_events_t          link_events,
  input  wire core_events_t          core_events,
  input  wire access_error_t         access_error,

  output logic                       commit_valid,
  output logic                       commit_close,
  output logic [3:0]                 commit_region,
  output region_desc_t               commit_desc,
  output logic [31:0]                commit_epoch,
  input  wire logic                  commit_done,
  input  wire commit_code_e          commit_code,
  input  wire logic                  init_busy,

  input  wire logic [REGIONS-1:0]    region_committed,
  input  wire logic [REGIONS-1:0]    region_done,
  input  wire logic [REGIONS-1:0]    region_closed,
  input  wire logic                  region_done_set,
  input  wire logic [REGIONS-1:0]    fallback_set,
  input  wire logic [REGIONS-1:0]    region_saturated,
  input  wire logic [REGIONS-1:0]    region_illegal,
  input  wire logic [REGIONS*32-1:0] region_complete,

  output logic [REGIONS-1:0]         fallback,
  output logic [8:0]                 cap_window,
  output logic [8:0]                 cap_threshold,
  output logic [23:0]                devload_threshold,
  output logic                       multi_header
);
  localparam int STRIDE_W = $clog2(REGION_STRIDE);
  localparam int TOP      = REGIONS * REGION_STRIDE;  // size of the region area

  // As many as commit_region and the address space hold.
  if (REGIONS < 1 || REGIONS > MAX_REGIONS) begin : g_bad_regions
    initial $fatal(1, "nf_regs: REGIONS must be 1 to 16");
  end
  if (SLOTS >= 2**W_PARAMS0_SLOTS || CNT_W >= 2**W_PARAMS0_CNT_W || RETRY_DEPTH > 255
      || REQ_CREDITS > 255 || RWD_CREDITS > 255 || MEM_LINES_LOG2 > 46) begin : g_bad_params
    initial $fatal(1, "nf_regs: a parameter does not fit its field of PARAMS0 or PARAMS1");
  end

  // ---- register bus ---------------------------------------------------------------------------
  logic        wr_valid, wr_done, wr_error, rd_error;
  logic [11:0] wr_addr, rd_addr;
  logic [31:0] wr_data, wr_mask, rd_data;

  nf_axil_slave u_axil (.*);

  logic [11:0] wr_rel, rd_rel, wr_off, rd_off;  // within the region area, within the region
  logic        wr_in_region, rd_in_region;
  logic [3:0]  wr_region, rd_region;
  logic        wr_device, commit_end;

  // Below the area the subtraction wraps to a large number, so that one comparison is enough.
  assign wr_rel       = wr_addr - ADDR_REGION;
  assign rd_rel       = rd_addr - ADDR_REGION;
  assign wr_in_region = wr_rel < 12'(TOP);
  assign rd_in_region = rd_rel < 12'(TOP);
  assign wr_region    = 4'(wr_rel >> STRIDE_W);
  assign rd_region    = 4'(rd_rel >> STRIDE_W);
  assign wr_off       = wr_rel & 12'(REGION_STRIDE - 1);
  assign rd_off       = rd_rel & 12'(REGION_STRIDE - 1);

  assign wr_error = !(wr_in_region ? is_region_register(wr_off) : is_register(wr_addr));
  assign rd_error = !(rd_in_region ? is_region_register(rd_off) : is_register(rd_addr));
  assign wr_device = wr_valid && !wr_in_region;
  assign wr_done   = !commit_valid || commit_done;

  // The bits that a write to a W1C or command register sets, zero in every other clock.
  function automatic logic [31:0] ones(input logic hit);
    ones = hit ? wr_data & wr_mask : '0;
  endfunction

  // ---- regions --------------------------------------------------------------------------------
  logic [DESCS_W-1:0]    desc;
  logic [REGIONS*32-1:0] epoch, region_rd;

  assign commit_close  = |(ones(wr_valid && wr_in_region && wr_off == ADDR_REGION_CTRL)
                           & 32'(1) << LSB_REGION_CTRL_CLOSE);
  assign commit_valid  = commit_close
                         || (wr_valid && wr_in_region && wr_off == ADDR_REGION_EPOCH
                             && wr_mask != '0);
  assign commit_region = wr_region;
  assign commit_desc   = desc_of(desc, wr_region);
  assign commit_epoch  = write_bits(epoch[int'(wr_region) * 32 +: 32], wr_data, wr_mask, '1);
  assign commit_end    = commit_done && !commit_close;

  for (genvar r = 0; r < REGIONS; r++) begin : g_region
    region_desc_t shadow;
    logic         selected;

    assign selected                 = wr_region == 4'(r);
    assign desc[r*DESC_W +: DESC_W] = shadow;

    nf_region_regs u_regs (
      .clk, .rst_n,
      .wr_en(wr_valid && wr_in_region && selected), .wr_off, .wr_data, .wr_mask,
      .rd_off, .rd_data(region_rd[r*32 +: 32]),
      .commit_end(commit_end && selected), .commit_code, .commit_epoch,
      .desc(shadow), .epoch(epoch[r*32 +: 32]),
      .committed(region_committed[r]), .done(region_done[r]), .fallback(fallback[r]),
      .saturated(region_saturated[r]), .illegal(region_illegal[r]), .closed(region_closed[r]),
      .complete(region_complete[r*32 +: 32])
    );
  end

  for (genvar r = REGIONS; r < MAX_REGIONS; r++) begin : g_no_region
    assign desc[r*DESC_W +: DESC_W] = '0;
  end

  // ---- events ---------------------------------------------------------------------------------
  logic [31:0] irq_status_q, irq_enable_q, irq_set, irq_clear, counter_rd;
  logic [REGIONS-1:0] fallback_q, fallback_clear;
  logic        clear_counters;

  assign irq_clear      = ones(wr_device && wr_addr == ADDR_IRQ_STATUS);
  assign fallback_clear = REGIONS'(ones(wr_device && wr_addr == ADDR_FALLBACK));
  assign clear_counters = |(ones(wr_device && wr_addr == ADDR_CTRL)
                            & 32'(1) << LSB_CTRL_CLEAR_COUNTERS);

  assign irq_set =
      32'(region_done_set)    << LSB_IRQ_STATUS_DONE
    | 32'(|fallback_set)      << LSB_IRQ_STATUS_FALLBACK
    | 32'(access_error.valid) << LSB_IRQ_STATUS_ACCESS_ERROR
    | 32'(link_events.crc_error || link_events.pid_uncorrectable || link_events.protocol_error
          || link_status.error_kind == LINK_ERR_ABORT) << LSB_IRQ_STATUS_LINK_ERROR
    | 32'(core_events.mem_read_error || core_events.mem_write_error)
                              << LSB_IRQ_STATUS_MEM_ERROR
    | 32'(|core_events.poison_received || core_events.mem_poison)
                              << LSB_IRQ_STATUS_POISON;

  assign irq      = |(irq_status_q & irq_enable_q);
  assign fallback = fallback_q;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      irq_status_q <= '0;
      fallback_q   <= '0;
    end else begin
      irq_status_q <= (irq_status_q & ~irq_clear) | irq_set;
      fallback_q   <= (fallback_q & ~fallback_clear) | fallback_set;
    end
  end

  nf_event_counters u_counters (
    .clk, .rst_n, .clear(clear_counters), .core_events, .link_events,
    .rd_addr, .rd_data(counter_rd)
  );

  // ---- first refused access -------------------------------------------------------------------
  logic          err_clear;
  logic          err_valid_q;
  access_error_t err_q;  // member `valid` is not used: err_valid_q says whether it is armed
  logic [31:0]   err_info, err_addr_lo, err_addr_hi, err_tag;
  logic          unused_err;

  assign err_clear = |(ones(wr_device && wr_addr == ADDR_ERR_INFO) & 32'(1) << LSB_ERR_INFO_VALID);

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      err_valid_q <= 1'b0;
      err_q       <= '0;
    end else if (access_error.valid && (!err_valid_q || err_clear)) begin
      err_valid_q <= 1'b1;
      err_q       <= access_error;
    end else if (err_clear) begin
      err_valid_q <= 1'b0;
    end
  end

  assign unused_err = err_q.valid;
  assign {err_addr_hi, err_addr_lo} = 64'({err_q.addr, 6'b0});
  assign err_tag = 32'(err_q.tag);
  assign err_info   = 32'(err_valid_q)  << LSB_ERR_INFO_VALID
                    | 32'(err_q.cause)  << LSB_ERR_INFO_CAUSE
                    | 32'(err_q.write)  << LSB_ERR_INFO_WRITE
                    | 32'(err_q.opcode) << LSB_ERR_INFO_OPCODE
                    | 32'(err_q.ldid)   << LSB_ERR_INFO_LDID;

  // ---- first link error -----------------------------------------------------------------------
  logic        link_err, link_err_clear, link_err_valid_q;
  link_error_e link_err_kind_q;
  logic [31:0] link_err_info, link_state;

  assign link_err       = link_status.error_kind != LINK_ERR_NONE;
  assign link_err_clear = |(ones(wr_device && wr_addr == ADDR_LINK_ERR_INFO)
                            & 32'(1) << LSB_LINK_ERR_INFO_VALID);

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      link_err_valid_q <= 1'b0;
      link_err_kind_q  <= LINK_ERR_NONE;
    end else if (link_err && (!link_err_valid_q || link_err_clear)) begin
      link_err_valid_q <= 1'b1;
      link_err_kind_q  <= link_status.error_kind;
    end else if (link_err_clear) begin
      link_err_valid_q <= 1'b0;
    end
  end

  assign link_err_info = 32'(link_err_valid_q)    << LSB_LINK_ERR_INFO_VALID
                       | 32'(link_err_kind_q)     << LSB_LINK_ERR_INFO_KIND;
  assign link_state    = 32'(link_status.lrsm)    << LSB_LINK_STATE_LRSM
                       | 32'(link_status.rrsm)    << LSB_LINK_STATE_RRSM
                       | 32'(link_status.aborted) << LSB_LINK_STATE_ABORTED;

  // ---- configuration --------------------------------------------------------------------------
  logic [31:0] cap_window_q, cap_threshold_q, devload_q, ctrl_q;

  function automatic logic [31:0] at_most(input logic [31:0] value, input logic [31:0] most);
    at_most = (value > most) ? most : value;
  endfunction

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      irq_enable_q    <= RESET_IRQ_ENABLE;
      cap_window_q    <= RESET_CAP_WINDOW;
      cap_threshold_q <= RESET_CAP_THRESHOLD;
      devload_q       <= RESET_DEVLOAD_THRESHOLD;
      ctrl_q          <= RESET_CTRL;
    end else if (wr_device) begin
      case (wr_addr)
        ADDR_CTRL:
          ctrl_q          <= write_bits(ctrl_q, wr_data, wr_mask, WRITABLE_CTRL);
        ADDR_IRQ_ENABLE:
          irq_enable_q    <= write_bits(irq_enable_q, wr_data, wr_mask, WRITABLE_IRQ_ENABLE);
        ADDR_CAP_WINDOW:
          cap_window_q    <= at_most(
              write_bits(cap_window_q, wr_data, wr_mask, WRITABLE_CAP_WINDOW),
              32'(MAX_CAP_WINDOW_VALUE));
        ADDR_CAP_THRESHOLD:
          cap_threshold_q <= write_bits(cap_threshold_q, wr_data, wr_mask, WRITABLE_CAP_THRESHOLD);
        ADDR_DEVLOAD_THRESHOLD:
          devload_q       <= write_bits(devload_q, wr_data, wr_mask, WRITABLE_DEVLOAD_THRESHOLD);
        default: ;
      endcase
    end
  end

  assign multi_header      = ctrl_q[LSB_CTRL_MULTI_HEADER];
  assign cap_window        = cap_window_q[W_CAP_WINDOW_VALUE-1:0];
  assign cap_threshold     = cap_threshold_q[W_CAP_THRESHOLD_VALUE-1:0];
  assign devload_threshold = {
    devload_q[LSB_DEVLOAD_THRESHOLD_SEVERE +: W_DEVLOAD_THRESHOLD_SEVERE],
    devload_q[LSB_DEVLOAD_THRESHOLD_MODERATE +: W_DEVLOAD_THRESHOLD_MODERATE],
    devload_q[LSB_DEVLOAD_THRESHOLD_OPTIMAL +: W_DEVLOAD_THRESHOLD_OPTIMAL]
  };

  // ---- read -----------------------------------------------------------------------------------
  logic [31:0] device_rd, params0, params1, status;

  assign params0 = 32'(REGIONS)        << LSB_PARAMS0_REGIONS
                 | 32'(SLOTS)          << LSB_PARAMS0_SLOTS
                 | 32'(CNT_W)          << LSB_PARAMS0_CNT_W;
  assign params1 = 32'(MEM_LINES_LOG2) << LSB_PARAMS1_MEM_LINES_LOG2
                 | 32'(RETRY_DEPTH)    << LSB_PARAMS1_RETRY_DEPTH
                 | 32'(REQ_CREDITS)    << LSB_PARAMS1_REQ_CREDITS
                 | 32'(RWD_CREDITS)    << LSB_PARAMS1_RWD_CREDITS;
  assign status  = 32'(link_up)      << LSB_STATUS_LINK_UP
                 | 32'(commit_valid && !commit_close) << LSB_STATUS_COMMIT_BUSY
                 | 32'(init_busy)    << LSB_STATUS_INIT_BUSY;

  always_comb begin
    case (rd_addr)
      ADDR_ID:                device_rd = RESET_ID;
      ADDR_VERSION:           device_rd = RESET_VERSION;
      ADDR_PARAMS0:           device_rd = params0;
      ADDR_PARAMS1:           device_rd = params1;
      ADDR_CTRL:              device_rd = ctrl_q;
      ADDR_STATUS:            device_rd = status;
      ADDR_IRQ_STATUS:        device_rd = irq_status_q;
      ADDR_IRQ_ENABLE:        device_rd = irq_enable_q;
      ADDR_DONE:              device_rd = 32'(region_done);
      ADDR_FALLBACK:          device_rd = 32'(fallback_q);
      ADDR_ERR_INFO:          device_rd = err_info;
      ADDR_ERR_ADDR_LO:       device_rd = err_addr_lo;
      ADDR_ERR_ADDR_HI:       device_rd = err_addr_hi;
      ADDR_ERR_TAG:           device_rd = err_tag;
      ADDR_CAP_WINDOW:        device_rd = cap_window_q;
      ADDR_CAP_THRESHOLD:     device_rd = cap_threshold_q;
      ADDR_DEVLOAD_THRESHOLD: device_rd = devload_q;
      ADDR_LINK_STATE:        device_rd = link_state;
      ADDR_LINK_ERR_INFO:     device_rd = link_err_info;
      default:                device_rd = counter_rd;
    endcase
  end

  assign rd_data = rd_in_region ? region_rd[int'(rd_region) * 32 +: 32] : device_rd;

  `NF_ASSERT(CommitHeld_A,
             commit_valid && !commit_done |=>
             commit_valid && $stable(commit_close) && $stable(commit_region) && $stable(commit_desc)
             && $stable(commit_epoch))
  `NF_ASSERT_NEVER(CommitDoneUnasked_A, commit_done && !commit_valid)
endmodule

`default_nettype wire
