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
// A write of CTRL_WINDOW_LO is the same with `commit_move` and `commit_place`.
//
// The control window takes turns with AXI4-Lite (`ctrl_*`, see nf_reg_bus). CTRL_WINDOW_LO and _HI,
// CTRL_LD_MASK and OWNER_LD keep still for it.
//
// Events (`core_events`, `link_events`, `link_status.error_kind`, `access_error`,
// `region_done_set`, `fallback_set`) are strobes of one clock; an event in the clock of a clear is
// not lost. The `region_*` levels are read as they are. `irq` is a level.

`default_nettype none
`include "nf_assert.svh"
`include "nf_axi_ports.svh"

module nf_regs
  import nf_pkg::*;
  import nf_ram_pkg::*;
  import nf_regs_pkg::*;
#(
  parameter int REGIONS        = 8,
  parameter int SLOTS          = 256,
  parameter int CNT_W          = 8,
  parameter int MEM_LINES_LOG2 = 20,
  parameter int RETRY_DEPTH    = 64,
  parameter int REQ_CREDITS    = 64,
  parameter int RWD_CREDITS    = 32,
  parameter int ECC            = 1,
  parameter int TERN5          = 0
) (
  input  wire logic                  clk,    // clock, rising edge
  input  wire logic                  rst_n,  // asynchronous reset, active low

  `NF_AXIL_PORTS(12),

  output logic                       irq,  // interrupt, level

  input  wire logic                  link_up,       // initialisation is complete
  // State of the link, and the first error of this cycle.
  input  wire link_status_t          link_status,
  input  wire link_events_t          link_events,   // link event strobes
  input  wire core_events_t          core_events,   // core event strobes and small counts
  // First cause of a refused access, with its strobe.
  input  wire access_error_t         access_error,
  input  wire ram_events_t           ram_events,    // faults of the protected RAMs in this cycle
  output ram_flip_t                  ram_flip,      // bit of a protected RAM to flip (RAS_INJECT)

  output logic                       commit_valid,   // commit asked for; held until `commit_done`
  output logic                       commit_close,   // close the region instead
  output logic [3:0]                 commit_region,  // region of the commit
  output region_desc_t               commit_desc,    // descriptor to make active
  output logic [31:0]                commit_epoch,   // epoch to set
  output logic                       commit_move,    // move the control window instead
  output logic [LADDR_W-1:0]         commit_place,   // line address asked for the control window
  input  wire logic                  commit_done,    // the commit has ended
  input  wire commit_code_e          commit_code,    // its result, valid with `commit_done`
  // Records of some region are still being initialised.
  input  wire logic                  init_busy,

  input  wire logic [REGIONS-1:0]    region_committed,  // regions with an active descriptor
  input  wire logic [REGIONS-1:0]    region_done,       // regions whose lines are all complete
  input  wire logic [REGIONS-1:0]    region_closed,     // regions whose round is closed
  input  wire logic                  region_done_set,   // strobe: a region has become done
  // Strobe: misses of the region exceed the threshold.
  input  wire logic [REGIONS-1:0]    fallback_set,
  input  wire logic [REGIONS-1:0]    region_saturated,  // regions in which a count has saturated
  input  wire logic [REGIONS-1:0]    region_illegal,    // regions in which an illegal code was seen
  input  wire logic [REGIONS*32-1:0] region_complete,   // complete lines, 32 bits a region

  output logic [REGIONS-1:0]         fallback,           // regions in FALLBACK
  output logic [8:0]                 cap_window,         // contributions in the window; 0: no check
  output logic [8:0]                 cap_threshold,  // misses in the window that FALLBACK allows
  // {severe, moderate, optimal}; 0: level off.
  output logic [23:0]                devload_threshold,
  output logic                       multi_header,       // send H5 and G6 slots

  output logic [15:0]                ctrl_ld_mask,  // LD-IDs that may write every register
  output logic [REGIONS*OWNER_W-1:0] owners,        // owner of each region (owner_t)
  input  wire ctrl_bus_t             ctrl_bus,      // request of the control window
  output logic                       ctrl_free,     // the control window may begin a write
  output logic                       ctrl_done,     // its write has ended
  output logic [LINE_W-1:0]          ctrl_read      // registers that it reads: one line
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
  logic        wr_valid, wr_done, wr_error, rd_error, in_band;
  logic [11:0] wr_addr, rd_addr;
  logic [31:0] wr_data, wr_mask;
  logic [5:0]  rd_line;
  logic [LINE_W-1:0] line;

  nf_reg_bus u_bus (
    .clk, .rst_n,
    `NF_AXIL_CONNECT,
    .ctrl_bus, .ctrl_free,
    .ctrl_done, .in_band,
    .wr_valid, .wr_addr,
    .wr_data, .wr_mask,
    .wr_done, .wr_error,
    .committing (commit_valid),
    .rd_line, .rd_addr,
    .rd_error, .line
  );

  logic [11:0] wr_rel, rd_rel, wr_off, rd_off;  // within the region area, within the region
  logic [5:0]  line_rel;  // lines of the region area: a region has one
  logic        wr_in_region, rd_in_region;
  logic [3:0]  wr_region, rd_region;
  logic        wr_device, commit_end;

  // Below the area the subtraction wraps to a large number, so that one comparison is enough.
  assign wr_rel       = wr_addr - ADDR_REGION;
  assign rd_rel       = rd_addr - ADDR_REGION;
  assign wr_in_region = wr_rel < 12'(TOP);
  assign rd_in_region = rd_rel < 12'(TOP);
  assign wr_region    = 4'(wr_rel >> STRIDE_W);
  assign line_rel     = rd_line - ADDR_REGION[11:6];
  assign rd_region    = line_rel[3:0];
  assign wr_off       = wr_rel & 12'(REGION_STRIDE - 1);
  assign rd_off       = rd_rel & 12'(REGION_STRIDE - 1);

  assign wr_error = !(wr_in_region ? is_region_register(wr_off) : is_register(wr_addr));
  assign rd_error = !(rd_in_region ? is_region_register(rd_off) : is_register(rd_addr));
  assign wr_device = wr_valid && !wr_in_region;
  assign wr_done   = !commit_valid || commit_done;

  // The bits that a write to a W1C or command register sets, zero in every other clock.
  logic [31:0] wr_ones;
  assign wr_ones = wr_data & wr_mask;

  function automatic logic [31:0] ones(input logic hit, input logic [31:0] bits);
    ones = hit ? bits : '0;
  endfunction

  // ---- regions --------------------------------------------------------------------------------
  logic [DESCS_W-1:0]    desc;
  logic [REGIONS*32-1:0] epoch;
  logic [REGIONS*4-1:0]  codes;
  region_desc_t          commit_shadow;

  assign commit_close  = |(ones(wr_valid && wr_in_region && wr_off == ADDR_REGION_CTRL, wr_ones)
                           & 32'(1) << LSB_REGION_CTRL_CLOSE);
  assign commit_valid  = commit_close
                         || commit_move
                         || (wr_valid && wr_in_region && wr_off == ADDR_REGION_EPOCH
                             && wr_mask != '0);
  assign commit_region = wr_region;
  assign commit_shadow = desc_of(desc, wr_region);
  assign commit_epoch  = write_bits(epoch[int'(wr_region) * 32 +: 32], wr_data, wr_mask, '1);
  assign commit_end    = commit_done && !commit_close && !commit_move;

  always_comb begin
    commit_desc          = commit_shadow;
    commit_desc.keep_sum = commit_shadow.keep_sum && (commit_shadow.mode == MODE_FP32);
  end

  for (genvar r = 0; r < REGIONS; r++) begin : g_region
    region_desc_t shadow;
    owner_t       owner;
    commit_code_e code;
    logic         selected;

    assign selected                 = wr_region == 4'(r);
    assign desc[r*DESC_W +: DESC_W] = shadow;
    assign owners[r*OWNER_W +: OWNER_W] = owner;
    assign codes[r*4 +: 4]          = code;

    nf_region_regs #(.TERN5(TERN5)) u_regs (
      .clk, .rst_n,
      .wr_en(wr_valid && wr_in_region && selected), .wr_off,
      .wr_data, .wr_mask,
      .in_band,
      .commit_end(commit_end && selected), .commit_code,
      .commit_epoch,
      .desc(shadow), .owner,
      .epoch(epoch[r*32 +: 32]), .code
    );
  end

  for (genvar r = REGIONS; r < MAX_REGIONS; r++) begin : g_no_region
    assign desc[r*DESC_W +: DESC_W] = '0;
  end

  // ---- first refused access -------------------------------------------------------------------
  logic [31:0] err_info, err_addr_lo, err_addr_hi, err_tag;

  nf_error_regs u_error (
    .clk, .rst_n,
    .seen (access_error),
    .rearm (|(ones(wr_device && wr_addr == ADDR_ERR_INFO, wr_ones) & 32'(1) << LSB_ERR_INFO_VALID)),
    .err_info, .err_addr_lo,
    .err_addr_hi, .err_tag
  );

  // ---- events ---------------------------------------------------------------------------------
  logic [31:0] irq_status_q, irq_enable_q, irq_set, irq_clear;
  logic [LINE_W-1:0]  counter_line;
  logic [REGIONS-1:0] fallback_q, fallback_clear;
  logic        clear_counters;

  assign irq_clear      = ones(wr_device && wr_addr == ADDR_IRQ_STATUS, wr_ones);
  assign fallback_clear = REGIONS'(ones(wr_device && wr_addr == ADDR_FALLBACK, wr_ones));
  assign clear_counters = |(ones(wr_device && wr_addr == ADDR_CTRL, wr_ones)
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
                              << LSB_IRQ_STATUS_POISON
    | 32'(ram_events.ram_parity != '0) << LSB_IRQ_STATUS_RAM_ERROR;

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
    .clk, .rst_n,
    .clear(clear_counters), .core_events,
    .link_events, .ram_events,
    .rd_line, .rd_data(counter_line)
  );

  // ---- protected RAMs -------------------------------------------------------------------------
  logic [31:0] ras_error, ras_inject;

  nf_ras_regs u_ras (
    .clk, .rst_n,
    .wr_valid(wr_device), .wr_addr,
    .wr_data, .wr_mask,
    .ram_events,
    .flip(ram_flip), .ras_error,
    .ras_inject
  );

  // ---- link -----------------------------------------------------------------------------------
  logic [31:0] link_err_info, link_state;

  nf_link_regs u_link (
    .clk, .rst_n,
    .status (link_status),
    .rearm (|(ones(wr_device && wr_addr == ADDR_LINK_ERR_INFO, wr_ones)
              & 32'(1) << LSB_LINK_ERR_INFO_VALID)),
    .err_info (link_err_info), .state (link_state)
  );

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

  logic [31:0] window_lo, window_hi, window_ld_mask;

  nf_ctrl_regs u_ctrl (
    .clk, .rst_n,
    .wr_en (wr_device && !in_band), .wr_addr,
    .wr_data, .wr_mask,
    .move (commit_move), .place (commit_place),
    .move_done (commit_done), .code (commit_code),
    .window_lo, .window_hi,
    .ld_mask (window_ld_mask)
  );

  assign ctrl_ld_mask      = window_ld_mask[W_CTRL_LD_MASK_VALUE-1:0];
  assign multi_header      = ctrl_q[LSB_CTRL_MULTI_HEADER];
  assign cap_window        = cap_window_q[W_CAP_WINDOW_VALUE-1:0];
  assign cap_threshold     = cap_threshold_q[W_CAP_THRESHOLD_VALUE-1:0];
  assign devload_threshold = {
    devload_q[LSB_DEVLOAD_THRESHOLD_SEVERE +: W_DEVLOAD_THRESHOLD_SEVERE],
    devload_q[LSB_DEVLOAD_THRESHOLD_MODERATE +: W_DEVLOAD_THRESHOLD_MODERATE],
    devload_q[LSB_DEVLOAD_THRESHOLD_OPTIMAL +: W_DEVLOAD_THRESHOLD_OPTIMAL]
  };

  // ---- read -----------------------------------------------------------------------------------
  logic [31:0]       params0, params1, status;
  logic [LINE_W-1:0] device_line, region_line;
  commit_code_bits_t rd_code;
  logic [31:0]       number;

  assign params0 = 32'(REGIONS)        << LSB_PARAMS0_REGIONS
                 | 32'(SLOTS)          << LSB_PARAMS0_SLOTS
                 | 32'(CNT_W)          << LSB_PARAMS0_CNT_W;
  assign params1 = 32'(MEM_LINES_LOG2) << LSB_PARAMS1_MEM_LINES_LOG2
                 | 32'(RETRY_DEPTH)    << LSB_PARAMS1_RETRY_DEPTH
                 | 32'(REQ_CREDITS)    << LSB_PARAMS1_REQ_CREDITS
                 | 32'(RWD_CREDITS)    << LSB_PARAMS1_RWD_CREDITS;
  assign status  = 32'(link_up)      << LSB_STATUS_LINK_UP
                 | 32'(commit_valid && !commit_close && !commit_move) << LSB_STATUS_COMMIT_BUSY
                 | 32'(init_busy)    << LSB_STATUS_INIT_BUSY;

  // First bit of the register at this address, in its line.
  function automatic int word(input logic [11:0] addr);
    word = (int'(addr) % 64) * 8;
  endfunction

  always_comb begin
    device_line = '0;
    case (rd_line)
      ADDR_ID[11:6]: begin
        device_line[word(ADDR_ID) +: 32]                = RESET_ID;
        device_line[word(ADDR_VERSION) +: 32]           = RESET_VERSION;
        device_line[word(ADDR_PARAMS0) +: 32]           = params0;
        device_line[word(ADDR_PARAMS1) +: 32]           = params1;
        device_line[word(ADDR_CTRL) +: 32]              = ctrl_q;
        device_line[word(ADDR_STATUS) +: 32]            = status;
        device_line[word(ADDR_IRQ_STATUS) +: 32]        = irq_status_q;
        device_line[word(ADDR_IRQ_ENABLE) +: 32]        = irq_enable_q;
        device_line[word(ADDR_DONE) +: 32]              = 32'(region_done);
        device_line[word(ADDR_FALLBACK) +: 32]          = 32'(fallback_q);
        device_line[word(ADDR_ERR_INFO) +: 32]          = err_info;
        device_line[word(ADDR_ERR_ADDR_LO) +: 32]       = err_addr_lo;
        device_line[word(ADDR_ERR_ADDR_HI) +: 32]       = err_addr_hi;
        device_line[word(ADDR_ERR_TAG) +: 32]           = err_tag;
        device_line[word(ADDR_CAP_WINDOW) +: 32]        = cap_window_q;
        device_line[word(ADDR_CAP_THRESHOLD) +: 32]     = cap_threshold_q;
      end
      ADDR_DEVLOAD_THRESHOLD[11:6]: begin
        device_line[word(ADDR_DEVLOAD_THRESHOLD) +: 32] = devload_q;
        device_line[word(ADDR_LINK_STATE) +: 32]        = link_state;
        device_line[word(ADDR_LINK_ERR_INFO) +: 32]     = link_err_info;
        device_line[word(ADDR_CTRL_WINDOW_LO) +: 32]    = window_lo;
        device_line[word(ADDR_CTRL_WINDOW_HI) +: 32]    = window_hi;
        device_line[word(ADDR_CTRL_LD_MASK) +: 32]      = window_ld_mask;
        device_line[word(ADDR_RAS_ERROR) +: 32]         = ras_error;
        device_line[word(ADDR_RAS_INJECT) +: 32]        = ras_inject;
        device_line[word(ADDR_PARAMS2) +: 32]           = (32'(ECC) << LSB_PARAMS2_ECC)
                                                          | (32'(TERN5) << LSB_PARAMS2_TERN5);
      end
      default: ;
    endcase
  end

  assign number  = 32'(rd_region) % REGIONS;
  assign rd_code = codes[number * 4 +: 4];

  nf_region_line u_region_line (
    .desc      (desc_of(desc, rd_region)),
    .owner     (owners[number * OWNER_W +: OWNER_W]),
    .epoch     (epoch[number * 32 +: 32]),
    .code      (rd_code.code),
    .committed (region_committed[number]), .done (region_done[number]),
    .fallback  (fallback[number]), .saturated (region_saturated[number]),
    .illegal   (region_illegal[number]), .closed (region_closed[number]),
    .complete  (region_complete[number * 32 +: 32]),
    .line      (region_line)
  );

  assign line      = (line_rel < 6'(REGIONS)) ? region_line : device_line | counter_line;
  assign ctrl_read = line;

  `NF_ASSERT_KEEPS(CommitHeld_A, commit_valid && !commit_done,
                   {commit_valid, commit_close, commit_region, commit_desc, commit_epoch})
  `NF_ASSERT_NEVER(CommitDoneUnasked_A, commit_done && !commit_valid)
endmodule

`default_nettype wire
