// SPDX-License-Identifier: Apache-2.0
// NEURON-Fabric controller: a CXL Type-3 memory device that aggregates low-bit gradients as their
// cache lines pass through it, with an FP32 path. Controller specification, section 7.
//
//   link pins -- nf_link == messages == nf_core -- AXI4 to device memory
//                   |                      |
//                   +------ nf_regs -------+      AXI4-Lite, interrupt
//
// rst_n is asserted asynchronously and must be released synchronously to clk. The flit receiver has
// no back-pressure (credits protect it); tx_* is valid/ready and stable until taken. WUSER[0] and
// RUSER[0] carry the poison of a line, which the memory stores with its data.

`default_nettype none
`include "nf_axi_ports.svh"

module nf_controller
  import nf_pkg::*;
  import nf_ram_pkg::*;
#(
  parameter int REGIONS        = 8,     // 1..16: region descriptors
  parameter int SLOTS          = 256,   // power of two, 4..256: lines whose state is on chip
  parameter int WAYS           = 8,     // power of two, 2..256: a line may be in WAYS slots, or all
  parameter int PINS           = 64,    // power of two, 2..256: slots with operations under way
  parameter int CNT_W          = 8,     // 1..8: count planes; a count saturates at 2^CNT_W - 1
  parameter int MEM_LINES_LOG2 = 20,    // 8..38: device memory has 2^MEM_LINES_LOG2 lines of 64 B
  parameter int RETRY_DEPTH    = 64,    // 22..255: flits of the retry buffer (wrap value + 1)
  parameter int RETRY_TIMEOUT  = 4096,  // 1..: sent flits until an unanswered RETRY.Req is repeated
  parameter int REQ_CREDITS    = 64,    // 2..255: queue of Req; by WAYS they bound waits
  parameter int RWD_CREDITS    = 32,    // 2..255: receive queue of RwD, granted as credits
  parameter int GEN_W          = 32,    // 1..32: generations of a region are GEN_W bits
  parameter int MISS_DEPTH     = 64,    // 2..256: fills, and evictions, under way
  parameter int WRITTEN_LOG2   = 12,    // 1..20: a region has 2^WRITTEN_LOG2 marks of evicted lines
  parameter int ECC            = 1,     // 0..2: protection of the RAMs: none, parity, SECDED
  parameter int TERN5          = 0,     // 0..1: with the mode G_TERN5
  parameter int ECP5           = 0,     // 0..1: counts and votes in carry cells of ECP5
  parameter int INJECT_DATA    = 0      // 0..1: with parity, too, RAS_INJECT flips bits of data
) (
  input  wire logic         clk,    // clock; every flop uses its rising edge
  input  wire logic         rst_n,  // asynchronous reset, active low

  input  wire logic         rx_valid,         // a flit arrives; no back-pressure
  input  wire logic [15:0]  rx_protocol_id,   // Protocol ID of the flit
  input  wire logic [527:0] rx_flit,          // flit with CRC
  output logic              tx_valid,         // flit valid
  output logic [15:0]       tx_protocol_id,   // Protocol ID of the flit
  output logic [527:0]      tx_flit,          // flit with CRC
  input  wire logic         tx_ready,         // flit taken
  input  wire logic         phy_up,           // the physical layer is up
  output logic              retrain_request,  // level: the physical layer should reinitialise

  `NF_AXIL_PORTS(12),

  `NF_AXI_WRITE_PORTS(MEM_LINES_LOG2+6),
  `NF_AXI_READ_PORTS(MEM_LINES_LOG2+6),

  output logic              irq  // interrupt, level
);
  ram_flip_t                   ram_flip;
  ram_events_t                 ram_events;
  logic [RAMS*RAM_FAULT_W-1:0] ram_faults;

  nf_ram_report u_report (.faults (ram_faults), .events (ram_events));

  logic          req_valid, req_ready, rwd_valid, rwd_ready;
  logic          ndr_valid, ndr_ready, drs_valid, drs_ready, drs_gone;
  m2s_req_t      req;
  m2s_rwd_t      rwd;
  s2m_ndr_t      ndr;
  s2m_drs_t      drs;
  logic          link_up, multi_header;
  link_status_t  link_status;
  link_events_t  link_events;
  core_events_t  core_events;
  access_error_t access_error;

  logic                  commit_valid, commit_close, commit_done, init_busy, region_done_set;
  logic [31:0]           commit_epoch;
  logic                  commit_move, ctrl_free, ctrl_done;
  logic [LADDR_W-1:0]    commit_place;
  logic [15:0]           ctrl_ld_mask;
  logic [LINE_W-1:0]     ctrl_read;
  ctrl_bus_t             ctrl_bus;
  logic [REGIONS*OWNER_W-1:0] owners;
  logic [3:0]            commit_region;
  commit_code_e          commit_code;
  region_desc_t          commit_desc;
  logic [REGIONS-1:0]    region_committed, region_done, region_closed;
  logic [REGIONS-1:0]    region_saturated, region_illegal;
  logic [REGIONS-1:0]    fallback_set, fallback;
  logic [REGIONS*32-1:0] region_complete;
  logic [8:0]            cap_window, cap_threshold;
  logic [23:0]           devload_threshold;

  nf_link #(
    .REQ_CREDITS(REQ_CREDITS), .RWD_CREDITS(RWD_CREDITS),
    .RETRY_DEPTH(RETRY_DEPTH),
    .RETRY_TIMEOUT(RETRY_TIMEOUT), .ECC(ECC),
    .INJECT_DATA(INJECT_DATA)
  ) u_link (
    .clk, .rst_n,
    .ram_flip, .ram_faults (ram_faults[8*RAM_FAULT_W +: 2*RAM_FAULT_W]),
    .rx_valid, .rx_protocol_id,
    .rx_flit, .tx_valid,
    .tx_protocol_id, .tx_flit,
    .tx_ready,
    .phy_up, .retrain_request,
    .multi_header,
    .req_valid, .req_ready,
    .req, .rwd_valid,
    .rwd_ready, .rwd,
    .ndr_valid, .ndr_ready,
    .ndr, .drs_valid,
    .drs_ready, .drs_gone,
    .drs,
    .link_up, .status (link_status),
    .events (link_events)
  );

  nf_regs #(
    .REGIONS(REGIONS), .SLOTS(SLOTS),
    .CNT_W(CNT_W), .MEM_LINES_LOG2(MEM_LINES_LOG2),
    .RETRY_DEPTH(RETRY_DEPTH), .REQ_CREDITS(REQ_CREDITS),
    .RWD_CREDITS(RWD_CREDITS),
    .ECC(ECC), .TERN5(TERN5)
  ) u_regs (
    .clk, .rst_n,
    `NF_AXIL_CONNECT,
    .irq, .link_up,
    .link_status, .link_events,
    .core_events, .access_error,
    .ram_events, .ram_flip,
    .commit_valid, .commit_close,
    .commit_region, .commit_desc,
    .commit_epoch, .commit_move,
    .commit_place, .commit_done,
    .commit_code,
    .init_busy, .region_committed,
    .region_done, .region_closed,
    .region_done_set,
    .fallback_set, .region_saturated,
    .region_illegal, .region_complete,
    .fallback, .cap_window,
    .cap_threshold, .devload_threshold,
    .multi_header,
    .ctrl_ld_mask, .owners,
    .ctrl_bus, .ctrl_free,
    .ctrl_done, .ctrl_read
  );

  nf_core #(
    .REGIONS(REGIONS), .SLOTS(SLOTS), .WAYS(WAYS), .PINS(PINS),
    .CNT_W(CNT_W), .MEM_LINES_LOG2(MEM_LINES_LOG2),
    .GEN_W(GEN_W), .MISS_DEPTH(MISS_DEPTH),
    .WRITTEN_LOG2(WRITTEN_LOG2), .ECC(ECC),
    .TERN5(TERN5), .ECP5(ECP5),
    .INJECT_DATA(INJECT_DATA)
  ) u_core (
    .clk, .rst_n,
    .ram_flip, .ram_faults (ram_faults[8*RAM_FAULT_W-1:0]),
    .req_valid, .req_ready,
    .req, .rwd_valid,
    .rwd_ready, .rwd,
    .ndr_valid, .ndr_ready,
    .ndr, .drs_valid,
    .drs_ready, .drs,
    .drs_gone,
    .commit_valid, .commit_close,
    .commit_region, .commit_desc,
    .commit_epoch, .commit_move,
    .commit_place, .commit_done,
    .commit_code,
    .init_busy, .region_committed,
    .region_done, .region_closed,
    .region_done_set,
    .fallback_set, .region_saturated,
    .region_illegal, .region_complete,
    .fallback, .cap_window,
    .cap_threshold, .devload_threshold,
    .events (core_events), .access_error,
    .ctrl_ld_mask, .owners,
    .ctrl_bus, .ctrl_free,
    .ctrl_done, .ctrl_read,
    `NF_AXI_WRITE_CONNECT,
    `NF_AXI_READ_CONNECT
  );
endmodule

`default_nettype wire
