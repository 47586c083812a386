// SPDX-License-Identifier: Apache-2.0
// Generated from hdl/regs/nf_regs.rdl by `python -m verif.regs.generate`; do not edit.
//
// ADDR_x: byte address (of region registers: offset within the region). WRITABLE_x: the
// read-write bits. RESET_x: the reset value. LSB_x_f: lowest bit of field f, W_x_f: its
// width when it is wider than a bit, MAX_x_f: the greatest value that it takes.

`default_nettype none

package nf_regs_pkg;

  localparam logic [11:0] ADDR_ID = 12'h000;
  localparam logic [31:0] RESET_ID = 32'h4E463031;
  localparam int LSB_ID_VALUE = 0;
  localparam int W_ID_VALUE = 32;

  localparam logic [11:0] ADDR_VERSION = 12'h004;
  localparam logic [31:0] RESET_VERSION = 32'h00010002;
  localparam int LSB_VERSION_MINOR = 0;
  localparam int W_VERSION_MINOR = 16;
  localparam int LSB_VERSION_MAJOR = 16;
  localparam int W_VERSION_MAJOR = 16;

  localparam logic [11:0] ADDR_PARAMS0 = 12'h008;
  localparam int LSB_PARAMS0_REGIONS = 0;
  localparam int W_PARAMS0_REGIONS = 8;
  localparam int LSB_PARAMS0_SLOTS = 8;
  localparam int W_PARAMS0_SLOTS = 16;
  localparam int LSB_PARAMS0_CNT_W = 24;
  localparam int W_PARAMS0_CNT_W = 8;

  localparam logic [11:0] ADDR_PARAMS1 = 12'h00C;
  localparam int LSB_PARAMS1_MEM_LINES_LOG2 = 0;
  localparam int W_PARAMS1_MEM_LINES_LOG2 = 8;
  localparam int LSB_PARAMS1_RETRY_DEPTH = 8;
  localparam int W_PARAMS1_RETRY_DEPTH = 8;
  localparam int LSB_PARAMS1_REQ_CREDITS = 16;
  localparam int W_PARAMS1_REQ_CREDITS = 8;
  localparam int LSB_PARAMS1_RWD_CREDITS = 24;
  localparam int W_PARAMS1_RWD_CREDITS = 8;

  localparam logic [11:0] ADDR_CTRL = 12'h010;
  localparam logic [31:0] WRITABLE_CTRL = 32'h00000002;
  localparam logic [31:0] RESET_CTRL = 32'h00000000;
  localparam int LSB_CTRL_CLEAR_COUNTERS = 0;
  localparam int LSB_CTRL_MULTI_HEADER = 1;

  localparam logic [11:0] ADDR_STATUS = 12'h014;
  localparam int LSB_STATUS_LINK_UP = 0;
  localparam int LSB_STATUS_COMMIT_BUSY = 1;
  localparam int LSB_STATUS_INIT_BUSY = 2;

  localparam logic [11:0] ADDR_IRQ_STATUS = 12'h018;
  localparam int LSB_IRQ_STATUS_DONE = 0;
  localparam int LSB_IRQ_STATUS_FALLBACK = 1;
  localparam int LSB_IRQ_STATUS_ACCESS_ERROR = 2;
  localparam int LSB_IRQ_STATUS_LINK_ERROR = 3;
  localparam int LSB_IRQ_STATUS_MEM_ERROR = 4;
  localparam int LSB_IRQ_STATUS_POISON = 5;
  localparam int LSB_IRQ_STATUS_RAM_ERROR = 6;

  localparam logic [11:0] ADDR_IRQ_ENABLE = 12'h01C;
  localparam logic [31:0] WRITABLE_IRQ_ENABLE = 32'h0000007F;
  localparam logic [31:0] RESET_IRQ_ENABLE = 32'h00000000;
  localparam int LSB_IRQ_ENABLE_DONE = 0;
  localparam int LSB_IRQ_ENABLE_FALLBACK = 1;
  localparam int LSB_IRQ_ENABLE_ACCESS_ERROR = 2;
  localparam int LSB_IRQ_ENABLE_LINK_ERROR = 3;
  localparam int LSB_IRQ_ENABLE_MEM_ERROR = 4;
  localparam int LSB_IRQ_ENABLE_POISON = 5;
  localparam int LSB_IRQ_ENABLE_RAM_ERROR = 6;

  localparam logic [11:0] ADDR_DONE = 12'h020;
  localparam int LSB_DONE_VALUE = 0;

  localparam logic [11:0] ADDR_FALLBACK = 12'h024;
  localparam int LSB_FALLBACK_VALUE = 0;

  localparam logic [11:0] ADDR_ERR_INFO = 12'h028;
  localparam int LSB_ERR_INFO_VALID = 0;
  localparam int LSB_ERR_INFO_CAUSE = 4;
  localparam int W_ERR_INFO_CAUSE = 4;
  localparam int LSB_ERR_INFO_WRITE = 8;
  localparam int LSB_ERR_INFO_OPCODE = 12;
  localparam int W_ERR_INFO_OPCODE = 4;
  localparam int LSB_ERR_INFO_LDID = 16;
  localparam int W_ERR_INFO_LDID = 4;

  localparam logic [11:0] ADDR_ERR_ADDR_LO = 12'h02C;
  localparam int LSB_ERR_ADDR_LO_VALUE = 0;
  localparam int W_ERR_ADDR_LO_VALUE = 32;

  localparam logic [11:0] ADDR_ERR_ADDR_HI = 12'h030;
  localparam int LSB_ERR_ADDR_HI_VALUE = 0;
  localparam int W_ERR_ADDR_HI_VALUE = 20;

  localparam logic [11:0] ADDR_ERR_TAG = 12'h034;
  localparam int LSB_ERR_TAG_VALUE = 0;
  localparam int W_ERR_TAG_VALUE = 16;

  localparam logic [11:0] ADDR_CAP_WINDOW = 12'h038;
  localparam logic [31:0] WRITABLE_CAP_WINDOW = 32'h000001FF;
  localparam logic [31:0] RESET_CAP_WINDOW = 32'h00000040;
  localparam int LSB_CAP_WINDOW_VALUE = 0;
  localparam int W_CAP_WINDOW_VALUE = 9;
  localparam int MAX_CAP_WINDOW_VALUE = 256;

  localparam logic [11:0] ADDR_CAP_THRESHOLD = 12'h03C;
  localparam logic [31:0] WRITABLE_CAP_THRESHOLD = 32'h000001FF;
  localparam logic [31:0] RESET_CAP_THRESHOLD = 32'h00000100;
  localparam int LSB_CAP_THRESHOLD_VALUE = 0;
  localparam int W_CAP_THRESHOLD_VALUE = 9;

  localparam logic [11:0] ADDR_DEVLOAD_THRESHOLD = 12'h040;
  localparam logic [31:0] WRITABLE_DEVLOAD_THRESHOLD = 32'h00FFFFFF;
  localparam logic [31:0] RESET_DEVLOAD_THRESHOLD = 32'h00603010;
  localparam int LSB_DEVLOAD_THRESHOLD_OPTIMAL = 0;
  localparam int W_DEVLOAD_THRESHOLD_OPTIMAL = 8;
  localparam int LSB_DEVLOAD_THRESHOLD_MODERATE = 8;
  localparam int W_DEVLOAD_THRESHOLD_MODERATE = 8;
  localparam int LSB_DEVLOAD_THRESHOLD_SEVERE = 16;
  localparam int W_DEVLOAD_THRESHOLD_SEVERE = 8;

  localparam logic [11:0] ADDR_LINK_STATE = 12'h044;
  localparam int LSB_LINK_STATE_LRSM = 0;
  localparam int W_LINK_STATE_LRSM = 3;
  localparam int LSB_LINK_STATE_RRSM = 4;
  localparam int LSB_LINK_STATE_ABORTED = 8;

  localparam logic [11:0] ADDR_LINK_ERR_INFO = 12'h048;
  localparam int LSB_LINK_ERR_INFO_VALID = 0;
  localparam int LSB_LINK_ERR_INFO_KIND = 4;
  localparam int W_LINK_ERR_INFO_KIND = 4;

  localparam logic [11:0] ADDR_CTRL_WINDOW_LO = 12'h060;
  localparam int LSB_CTRL_WINDOW_LO_CODE = 0;
  localparam int W_CTRL_WINDOW_LO_CODE = 4;
  localparam int LSB_CTRL_WINDOW_LO_ADDR = 6;
  localparam int W_CTRL_WINDOW_LO_ADDR = 26;

  localparam logic [11:0] ADDR_CTRL_WINDOW_HI = 12'h064;
  localparam logic [31:0] WRITABLE_CTRL_WINDOW_HI = 32'h000FFFFF;
  localparam logic [31:0] RESET_CTRL_WINDOW_HI = 32'h00000000;
  localparam int LSB_CTRL_WINDOW_HI_ADDR = 0;
  localparam int W_CTRL_WINDOW_HI_ADDR = 20;

  localparam logic [11:0] ADDR_CTRL_LD_MASK = 12'h068;
  localparam logic [31:0] WRITABLE_CTRL_LD_MASK = 32'h0000FFFF;
  localparam logic [31:0] RESET_CTRL_LD_MASK = 32'h00000000;
  localparam int LSB_CTRL_LD_MASK_VALUE = 0;
  localparam int W_CTRL_LD_MASK_VALUE = 16;

  localparam logic [11:0] ADDR_RAS_ERROR = 12'h070;
  localparam int LSB_RAS_ERROR_VALID = 0;
  localparam int LSB_RAS_ERROR_RAM = 4;
  localparam int W_RAS_ERROR_RAM = 4;
  localparam int LSB_RAS_ERROR_ROW = 8;
  localparam int W_RAS_ERROR_ROW = 8;

  localparam logic [11:0] ADDR_RAS_INJECT = 12'h074;
  localparam logic [31:0] WRITABLE_RAS_INJECT = 32'h0FFF1FFF;
  localparam logic [31:0] RESET_RAS_INJECT = 32'h00000000;
  localparam int LSB_RAS_INJECT_PLACE = 0;
  localparam int W_RAS_INJECT_PLACE = 13;
  localparam int LSB_RAS_INJECT_ROW = 16;
  localparam int W_RAS_INJECT_ROW = 8;
  localparam int LSB_RAS_INJECT_RAM = 24;
  localparam int W_RAS_INJECT_RAM = 4;
  localparam int LSB_RAS_INJECT_GO = 31;

  localparam logic [11:0] ADDR_PARAMS2 = 12'h078;
  localparam int LSB_PARAMS2_ECC = 0;
  localparam int W_PARAMS2_ECC = 2;
  localparam int LSB_PARAMS2_TERN5 = 8;

  localparam logic [11:0] ADDR_SLOT_HIT = 12'h100;
  localparam int LSB_SLOT_HIT_VALUE = 0;
  localparam int W_SLOT_HIT_VALUE = 32;

  localparam logic [11:0] ADDR_SLOT_MISS = 12'h104;
  localparam int LSB_SLOT_MISS_VALUE = 0;
  localparam int W_SLOT_MISS_VALUE = 32;

  localparam logic [11:0] ADDR_EVICTION = 12'h108;
  localparam int LSB_EVICTION_VALUE = 0;
  localparam int W_EVICTION_VALUE = 32;

  localparam logic [11:0] ADDR_FILL = 12'h10C;
  localparam int LSB_FILL_VALUE = 0;
  localparam int W_FILL_VALUE = 32;

  localparam logic [11:0] ADDR_DUPLICATE = 12'h110;
  localparam int LSB_DUPLICATE_VALUE = 0;
  localparam int W_DUPLICATE_VALUE = 32;

  localparam logic [11:0] ADDR_ILLEGAL_CODE = 12'h114;
  localparam int LSB_ILLEGAL_CODE_VALUE = 0;
  localparam int W_ILLEGAL_CODE_VALUE = 32;

  localparam logic [11:0] ADDR_EARLY_READ = 12'h118;
  localparam int LSB_EARLY_READ_VALUE = 0;
  localparam int W_EARLY_READ_VALUE = 32;

  localparam logic [11:0] ADDR_POISON_RECEIVED = 12'h11C;
  localparam int LSB_POISON_RECEIVED_VALUE = 0;
  localparam int W_POISON_RECEIVED_VALUE = 32;

  localparam logic [11:0] ADDR_CONTRIBUTION = 12'h120;
  localparam int LSB_CONTRIBUTION_VALUE = 0;
  localparam int W_CONTRIBUTION_VALUE = 32;

  localparam logic [11:0] ADDR_REFUSED = 12'h124;
  localparam int LSB_REFUSED_VALUE = 0;
  localparam int W_REFUSED_VALUE = 32;

  localparam logic [11:0] ADDR_UNMAPPED = 12'h128;
  localparam int LSB_UNMAPPED_VALUE = 0;
  localparam int W_UNMAPPED_VALUE = 32;

  localparam logic [11:0] ADDR_UNSUPPORTED = 12'h12C;
  localparam int LSB_UNSUPPORTED_VALUE = 0;
  localparam int W_UNSUPPORTED_VALUE = 32;

  localparam logic [11:0] ADDR_MEM_READ_ERROR = 12'h130;
  localparam int LSB_MEM_READ_ERROR_VALUE = 0;
  localparam int W_MEM_READ_ERROR_VALUE = 32;

  localparam logic [11:0] ADDR_MEM_WRITE_ERROR = 12'h134;
  localparam int LSB_MEM_WRITE_ERROR_VALUE = 0;
  localparam int W_MEM_WRITE_ERROR_VALUE = 32;

  localparam logic [11:0] ADDR_MEM_POISON = 12'h138;
  localparam int LSB_MEM_POISON_VALUE = 0;
  localparam int W_MEM_POISON_VALUE = 32;

  localparam logic [11:0] ADDR_LATE = 12'h13C;
  localparam int LSB_LATE_VALUE = 0;
  localparam int W_LATE_VALUE = 32;

  localparam logic [11:0] ADDR_CRC_ERROR = 12'h140;
  localparam int LSB_CRC_ERROR_VALUE = 0;
  localparam int W_CRC_ERROR_VALUE = 32;

  localparam logic [11:0] ADDR_PID_CORRECTABLE = 12'h144;
  localparam int LSB_PID_CORRECTABLE_VALUE = 0;
  localparam int W_PID_CORRECTABLE_VALUE = 32;

  localparam logic [11:0] ADDR_PID_UNCORRECTABLE = 12'h148;
  localparam int LSB_PID_UNCORRECTABLE_VALUE = 0;
  localparam int W_PID_UNCORRECTABLE_VALUE = 32;

  localparam logic [11:0] ADDR_PID_UNEXPECTED = 12'h14C;
  localparam int LSB_PID_UNEXPECTED_VALUE = 0;
  localparam int W_PID_UNEXPECTED_VALUE = 32;

  localparam logic [11:0] ADDR_STRAY_DATA = 12'h150;
  localparam int LSB_STRAY_DATA_VALUE = 0;
  localparam int W_STRAY_DATA_VALUE = 32;

  localparam logic [11:0] ADDR_CACHE_MESSAGE = 12'h154;
  localparam int LSB_CACHE_MESSAGE_VALUE = 0;
  localparam int W_CACHE_MESSAGE_VALUE = 32;

  localparam logic [11:0] ADDR_PROTOCOL_ERROR = 12'h158;
  localparam int LSB_PROTOCOL_ERROR_VALUE = 0;
  localparam int W_PROTOCOL_ERROR_VALUE = 32;

  localparam logic [11:0] ADDR_RX_FLIT = 12'h15C;
  localparam int LSB_RX_FLIT_VALUE = 0;
  localparam int W_RX_FLIT_VALUE = 32;

  localparam logic [11:0] ADDR_TX_FLIT = 12'h160;
  localparam int LSB_TX_FLIT_VALUE = 0;
  localparam int W_TX_FLIT_VALUE = 32;

  localparam logic [11:0] ADDR_RETRY_LOCAL = 12'h164;
  localparam int LSB_RETRY_LOCAL_VALUE = 0;
  localparam int W_RETRY_LOCAL_VALUE = 32;

  localparam logic [11:0] ADDR_RETRY_REMOTE = 12'h168;
  localparam int LSB_RETRY_REMOTE_VALUE = 0;
  localparam int W_RETRY_REMOTE_VALUE = 32;

  localparam logic [11:0] ADDR_RETRY_TIMEOUT = 12'h16C;
  localparam int LSB_RETRY_TIMEOUT_VALUE = 0;
  localparam int W_RETRY_TIMEOUT_VALUE = 32;

  localparam logic [11:0] ADDR_PHY_REINIT = 12'h170;
  localparam int LSB_PHY_REINIT_VALUE = 0;
  localparam int W_PHY_REINIT_VALUE = 32;

  localparam logic [11:0] ADDR_RAM_PARITY = 12'h174;
  localparam int LSB_RAM_PARITY_VALUE = 0;
  localparam int W_RAM_PARITY_VALUE = 32;

  localparam logic [11:0] ADDR_RAM_CORRECTED = 12'h178;
  localparam int LSB_RAM_CORRECTED_VALUE = 0;
  localparam int W_RAM_CORRECTED_VALUE = 32;

  // The event counters lie between these two addresses, with gaps.
  localparam logic [11:0] ADDR_FIRST_COUNTER = ADDR_SLOT_HIT;
  localparam logic [11:0] ADDR_LAST_COUNTER = ADDR_RAM_CORRECTED;

  localparam logic [11:0] ADDR_REGION = 12'h400;
  localparam int REGION_STRIDE = 64;

  localparam logic [11:0] ADDR_REGION_BASE_LO = 12'h000;
  localparam logic [31:0] WRITABLE_REGION_BASE_LO = 32'hFFFFFFC0;
  localparam logic [31:0] RESET_REGION_BASE_LO = 32'h00000000;
  localparam int LSB_REGION_BASE_LO_ADDR = 6;
  localparam int W_REGION_BASE_LO_ADDR = 26;

  localparam logic [11:0] ADDR_REGION_BASE_HI = 12'h004;
  localparam logic [31:0] WRITABLE_REGION_BASE_HI = 32'h000FFFFF;
  localparam logic [31:0] RESET_REGION_BASE_HI = 32'h00000000;
  localparam int LSB_REGION_BASE_HI_ADDR = 0;
  localparam int W_REGION_BASE_HI_ADDR = 20;

  localparam logic [11:0] ADDR_REGION_STATE_BASE_LO = 12'h008;
  localparam logic [31:0] WRITABLE_REGION_STATE_BASE_LO = 32'hFFFFFFC0;
  localparam logic [31:0] RESET_REGION_STATE_BASE_LO = 32'h00000000;
  localparam int LSB_REGION_STATE_BASE_LO_ADDR = 6;
  localparam int W_REGION_STATE_BASE_LO_ADDR = 26;

  localparam logic [11:0] ADDR_REGION_STATE_BASE_HI = 12'h00C;
  localparam logic [31:0] WRITABLE_REGION_STATE_BASE_HI = 32'h000FFFFF;
  localparam logic [31:0] RESET_REGION_STATE_BASE_HI = 32'h00000000;
  localparam int LSB_REGION_STATE_BASE_HI_ADDR = 0;
  localparam int W_REGION_STATE_BASE_HI_ADDR = 20;

  localparam logic [11:0] ADDR_REGION_LINES_LOG2 = 12'h010;
  localparam logic [31:0] WRITABLE_REGION_LINES_LOG2 = 32'h0000003F;
  localparam logic [31:0] RESET_REGION_LINES_LOG2 = 32'h00000000;
  localparam int LSB_REGION_LINES_LOG2_VALUE = 0;
  localparam int W_REGION_LINES_LOG2_VALUE = 6;

  localparam logic [11:0] ADDR_REGION_WORKERS = 12'h014;
  localparam logic [31:0] WRITABLE_REGION_WORKERS = 32'h000000FF;
  localparam logic [31:0] RESET_REGION_WORKERS = 32'h00000000;
  localparam int LSB_REGION_WORKERS_VALUE = 0;
  localparam int W_REGION_WORKERS_VALUE = 8;

  localparam logic [11:0] ADDR_REGION_CONFIG = 12'h018;
  localparam logic [31:0] WRITABLE_REGION_CONFIG = 32'h000103FF;
  localparam logic [31:0] RESET_REGION_CONFIG = 32'h00000080;
  localparam int LSB_REGION_CONFIG_MODE = 0;
  localparam int W_REGION_CONFIG_MODE = 4;
  localparam int LSB_REGION_CONFIG_TIE_MINUS = 4;
  localparam int LSB_REGION_CONFIG_STRICT = 5;
  localparam int LSB_REGION_CONFIG_BIND = 6;
  localparam int LSB_REGION_CONFIG_SIGNED = 7;
  localparam int LSB_REGION_CONFIG_BIND_SHIFT = 8;
  localparam int W_REGION_CONFIG_BIND_SHIFT = 2;
  localparam int MAX_REGION_CONFIG_BIND_SHIFT = 2;
  localparam int LSB_REGION_CONFIG_KEEP_SUM = 16;

  localparam logic [11:0] ADDR_REGION_THRESHOLD = 12'h01C;
  localparam logic [31:0] WRITABLE_REGION_THRESHOLD = 32'h000000FF;
  localparam logic [31:0] RESET_REGION_THRESHOLD = 32'h00000001;
  localparam int LSB_REGION_THRESHOLD_VALUE = 0;
  localparam int W_REGION_THRESHOLD_VALUE = 8;

  localparam logic [11:0] ADDR_REGION_LD_MASK = 12'h020;
  localparam logic [31:0] WRITABLE_REGION_LD_MASK = 32'h0000FFFF;
  localparam logic [31:0] RESET_REGION_LD_MASK = 32'h0000FFFF;
  localparam int LSB_REGION_LD_MASK_VALUE = 0;
  localparam int W_REGION_LD_MASK_VALUE = 16;

  localparam logic [11:0] ADDR_REGION_EPOCH = 12'h024;
  localparam int LSB_REGION_EPOCH_VALUE = 0;
  localparam int W_REGION_EPOCH_VALUE = 32;

  localparam logic [11:0] ADDR_REGION_STATUS = 12'h028;
  localparam int LSB_REGION_STATUS_COMMITTED = 0;
  localparam int LSB_REGION_STATUS_CODE = 4;
  localparam int W_REGION_STATUS_CODE = 4;
  localparam int LSB_REGION_STATUS_DONE = 8;
  localparam int LSB_REGION_STATUS_FALLBACK = 9;
  localparam int LSB_REGION_STATUS_SATURATED = 10;
  localparam int LSB_REGION_STATUS_ILLEGAL_SEEN = 11;
  localparam int LSB_REGION_STATUS_CLOSED = 12;

  localparam logic [11:0] ADDR_REGION_COMPLETE_LINES = 12'h02C;
  localparam int LSB_REGION_COMPLETE_LINES_VALUE = 0;
  localparam int W_REGION_COMPLETE_LINES_VALUE = 32;

  localparam logic [11:0] ADDR_REGION_CTRL = 12'h030;
  localparam int LSB_REGION_CTRL_CLOSE = 0;

  localparam logic [11:0] ADDR_REGION_OWNER_LD = 12'h034;
  localparam logic [31:0] WRITABLE_REGION_OWNER_LD = 32'h0000010F;
  localparam logic [31:0] RESET_REGION_OWNER_LD = 32'h00000000;
  localparam int LSB_REGION_OWNER_LD_LDID = 0;
  localparam int W_REGION_OWNER_LD_LDID = 4;
  localparam int LSB_REGION_OWNER_LD_VALID = 8;

  // Is there a register outside the regions at this word address?
  function automatic logic is_register(input logic [11:0] addr);
    case (addr)
      ADDR_ID,
      ADDR_VERSION,
      ADDR_PARAMS0,
      ADDR_PARAMS1,
      ADDR_CTRL,
      ADDR_STATUS,
      ADDR_IRQ_STATUS,
      ADDR_IRQ_ENABLE,
      ADDR_DONE,
      ADDR_FALLBACK,
      ADDR_ERR_INFO,
      ADDR_ERR_ADDR_LO,
      ADDR_ERR_ADDR_HI,
      ADDR_ERR_TAG,
      ADDR_CAP_WINDOW,
      ADDR_CAP_THRESHOLD,
      ADDR_DEVLOAD_THRESHOLD,
      ADDR_LINK_STATE,
      ADDR_LINK_ERR_INFO,
      ADDR_CTRL_WINDOW_LO,
      ADDR_CTRL_WINDOW_HI,
      ADDR_CTRL_LD_MASK,
      ADDR_RAS_ERROR,
      ADDR_RAS_INJECT,
      ADDR_PARAMS2,
      ADDR_SLOT_HIT,
      ADDR_SLOT_MISS,
      ADDR_EVICTION,
      ADDR_FILL,
      ADDR_DUPLICATE,
      ADDR_ILLEGAL_CODE,
      ADDR_EARLY_READ,
      ADDR_POISON_RECEIVED,
      ADDR_CONTRIBUTION,
      ADDR_REFUSED,
      ADDR_UNMAPPED,
      ADDR_UNSUPPORTED,
      ADDR_MEM_READ_ERROR,
      ADDR_MEM_WRITE_ERROR,
      ADDR_MEM_POISON,
      ADDR_LATE,
      ADDR_CRC_ERROR,
      ADDR_PID_CORRECTABLE,
      ADDR_PID_UNCORRECTABLE,
      ADDR_PID_UNEXPECTED,
      ADDR_STRAY_DATA,
      ADDR_CACHE_MESSAGE,
      ADDR_PROTOCOL_ERROR,
      ADDR_RX_FLIT,
      ADDR_TX_FLIT,
      ADDR_RETRY_LOCAL,
      ADDR_RETRY_REMOTE,
      ADDR_RETRY_TIMEOUT,
      ADDR_PHY_REINIT,
      ADDR_RAM_PARITY,
      ADDR_RAM_CORRECTED: is_register = 1'b1;
      default: is_register = 1'b0;
    endcase
  endfunction

  // Is there a register at this offset within a region?
  function automatic logic is_region_register(input logic [11:0] addr);
    case (addr)
      ADDR_REGION_BASE_LO,
      ADDR_REGION_BASE_HI,
      ADDR_REGION_STATE_BASE_LO,
      ADDR_REGION_STATE_BASE_HI,
      ADDR_REGION_LINES_LOG2,
      ADDR_REGION_WORKERS,
      ADDR_REGION_CONFIG,
      ADDR_REGION_THRESHOLD,
      ADDR_REGION_LD_MASK,
      ADDR_REGION_EPOCH,
      ADDR_REGION_STATUS,
      ADDR_REGION_COMPLETE_LINES,
      ADDR_REGION_CTRL,
      ADDR_REGION_OWNER_LD: is_region_register = 1'b1;
      default: is_region_register = 1'b0;
    endcase
  endfunction

  // Next value of a register's read-write bits: the written bits where `mask` is set.
  function automatic logic [31:0] write_bits(
    input logic [31:0] old,
    input logic [31:0] data,
    input logic [31:0] mask,
    input logic [31:0] writable
  );
    write_bits = ((old & ~mask) | (data & mask)) & writable;
  endfunction

endpackage

`default_nettype wire
