// SPDX-License-Identifier: Apache-2.0
// Types and constants shared by the whole controller. Everything here is visible in ports between
// blocks; what belongs to one block alone lives in that block.

`default_nettype none

package nf_pkg;

  // ---- sizes fixed by the specification -------------------------------------------------------
  localparam int LINE_W      = 512;  // one cache line
  localparam int BE_W        = 64;   // byte enables of a line
  localparam int TAG_W       = 16;
  localparam int LDID_W      = 4;
  localparam int LADDR_W     = 46;   // line address: byte address bits [51:6]
  localparam int MAX_WORKERS = 64;
  localparam int WORKER_W    = 6;

  // ---- region modes (CONFIG.MODE) -------------------------------------------------------------
  localparam logic [1:0] MODE_IDENTITY  = 2'd0;
  localparam logic [1:0] MODE_G_BINARY  = 2'd1;
  localparam logic [1:0] MODE_G_TERNARY = 2'd2;
  localparam logic [1:0] MODE_FP32      = 2'd3;

  // ---- CXL.mem opcodes ------------------------------------------------------------------------
  localparam logic [3:0] REQ_MEM_INV     = 4'd0;
  localparam logic [3:0] REQ_MEM_RD      = 4'd1;
  localparam logic [3:0] REQ_MEM_RD_DATA = 4'd2;
  localparam logic [3:0] REQ_MEM_RD_FWD  = 4'd3;
  localparam logic [3:0] REQ_MEM_WR_FWD  = 4'd4;
  localparam logic [3:0] REQ_MEM_SPEC_RD = 4'd8;
  localparam logic [3:0] REQ_MEM_INV_NT  = 4'd9;
  localparam logic [3:0] RWD_MEM_WR      = 4'd1;
  localparam logic [3:0] RWD_MEM_WR_PTL  = 4'd2;

  localparam logic [1:0] DEVLOAD_LIGHT    = 2'b00;
  localparam logic [1:0] DEVLOAD_OPTIMAL  = 2'b01;
  localparam logic [1:0] DEVLOAD_MODERATE = 2'b10;
  localparam logic [1:0] DEVLOAD_SEVERE   = 2'b11;

  // ---- messages between the link and the core -------------------------------------------------
  typedef struct packed {
    logic [3:0]         opcode;
    logic [TAG_W-1:0]   tag;
    logic [LDID_W-1:0]  ldid;
    logic [LADDR_W-1:0] addr;
  } m2s_req_t;

  typedef struct packed {
    logic               illegal;  // Sz/BE of the flit header did not fit the opcode: refuse, but answer
    logic [3:0]         opcode;
    logic [TAG_W-1:0]   tag;
    logic [LDID_W-1:0]  ldid;
    logic [LADDR_W-1:0] addr;
    logic               poison;
    logic [BE_W-1:0]    be;       // all ones unless the message carried byte enables
    logic [LINE_W-1:0]  data;
  } m2s_rwd_t;

  typedef struct packed {         // opcode is always Cmp, MetaField always No-Op
    logic [TAG_W-1:0]   tag;
    logic [LDID_W-1:0]  ldid;
    logic [1:0]         devload;
  } s2m_ndr_t;

  typedef struct packed {         // opcode is always MemData, MetaField always No-Op
    logic [TAG_W-1:0]   tag;
    logic [LDID_W-1:0]  ldid;
    logic [1:0]         devload;
    logic               poison;
    logic [LINE_W-1:0]  data;
  } s2m_drs_t;

  // ---- region descriptor ----------------------------------------------------------------------
  typedef struct packed {
    logic [LADDR_W-1:0] base;        // first line of the window
    logic [LADDR_W-1:0] state_base;  // first line of the backing area
    logic [5:0]         lines_log2;
    logic [7:0]         workers;
    logic [1:0]         mode;
    logic               tie_minus;
    logic               strict;
    logic               bind_ld;
    logic [7:0]         threshold;
    logic [15:0]        ld_mask;
  } region_desc_t;

  // Result of a commit, STATUS.CODE of the region.
  localparam logic [3:0] COMMIT_OK              = 4'd0;
  localparam logic [3:0] COMMIT_WORKERS         = 4'd1;  // W = 0 or W > 64
  localparam logic [3:0] COMMIT_THRESHOLD       = 4'd2;  // T = 0
  localparam logic [3:0] COMMIT_LINES           = 4'd3;  // window wider than the address space
  localparam logic [3:0] COMMIT_BASE_ALIGN      = 4'd4;  // window not naturally aligned
  localparam logic [3:0] COMMIT_WINDOW_MEMORY   = 4'd5;  // window not above the memory
  localparam logic [3:0] COMMIT_WINDOW_OVERLAP  = 4'd6;  // window overlaps another region's
  localparam logic [3:0] COMMIT_STATE_ALIGN     = 4'd7;  // state area not aligned to its record
  localparam logic [3:0] COMMIT_STATE_MEMORY    = 4'd8;  // state area not inside the memory
  localparam logic [3:0] COMMIT_STATE_OVERLAP   = 4'd9;  // state area overlaps another region's

  // Cause of a refused access, ERR_INFO.CAUSE.
  localparam logic [3:0] CAUSE_NONE        = 4'd0;
  localparam logic [3:0] CAUSE_UNSUPPORTED = 4'd1;  // opcode not implemented, or illegal Sz/BE
  localparam logic [3:0] CAUSE_UNMAPPED    = 4'd2;
  localparam logic [3:0] CAUSE_STATE_AREA  = 4'd3;
  localparam logic [3:0] CAUSE_LD_MASK     = 4'd4;
  localparam logic [3:0] CAUSE_SELECTOR    = 4'd5;
  localparam logic [3:0] CAUSE_PARTIAL     = 4'd6;  // MemWrPtl to a low-bit region
  localparam logic [3:0] CAUSE_BIND        = 4'd7;

  // ---- link-level retry ------------------------------------------------------------------------
  // Local retry state machine, LINK_STATE.LRSM.
  localparam logic [2:0] LRSM_NORMAL     = 3'd0;
  localparam logic [2:0] LRSM_LLRREQ     = 3'd1;
  localparam logic [2:0] LRSM_LOCAL_IDLE = 3'd2;
  localparam logic [2:0] LRSM_PHY_REINIT = 3'd3;
  localparam logic [2:0] LRSM_ABORT      = 3'd4;

  // Kind of a link error, LINK_ERR_INFO.KIND.
  localparam logic [3:0] LINK_ERR_NONE        = 4'd0;
  localparam logic [3:0] LINK_ERR_CRC         = 4'd1;
  localparam logic [3:0] LINK_ERR_PROTOCOL_ID = 4'd2;   // uncorrectable
  localparam logic [3:0] LINK_ERR_CONTROL     = 4'd3;   // static bit or unknown control flit
  localparam logic [3:0] LINK_ERR_BEFORE_INIT = 4'd4;   // non-RETRY flit before INIT.Param
  localparam logic [3:0] LINK_ERR_SECOND_INIT = 4'd5;
  localparam logic [3:0] LINK_ERR_SLOT        = 4'd6;   // slot format, Sz/BE, headers, rollover
  localparam logic [3:0] LINK_ERR_CREDIT      = 4'd7;   // message without a credit
  localparam logic [3:0] LINK_ERR_ACK         = 4'd8;   // more acknowledged than outstanding
  localparam logic [3:0] LINK_ERR_RETRY_REQ   = 4'd9;   // ESeq that the retry buffer does not hold
  localparam logic [3:0] LINK_ERR_RETRY_ACK   = 4'd10;  // RETRY.Ack that nobody asked for
  localparam logic [3:0] LINK_ERR_ABORT       = 4'd11;  // retries and retrains are exhausted

  typedef struct packed {
    logic [2:0] lrsm;
    logic       rrsm;        // 1: RETRY_LLRACK
    logic       aborted;
    logic [3:0] error_kind;  // strobe: LINK_ERR_NONE in every clock without an error
  } link_status_t;

  // ---- events counted by the registers: one strobe (or small count) a clock ---------------------
  typedef struct packed {
    logic       retry_local;        // an error started a local retry
    logic       retry_remote;       // a replay was granted: RETRY.Ack sent
    logic       retry_timeout;      // a RETRY.Req was not answered in time
    logic       phy_reinit;         // RETRY_PHY_REINIT was entered
    logic       crc_error;
    logic       pid_correctable;
    logic       pid_uncorrectable;
    logic       pid_unexpected;
    logic       stray_data;
    logic       cache_message;
    logic       protocol_error;
    logic       rx_flit;
    logic       tx_flit;
  } link_events_t;

  typedef struct packed {
    logic       slot_hit;
    logic       slot_miss;
    logic       eviction;
    logic       fill;
    logic       duplicate;
    logic [8:0] illegal_code;   // elements in this clock
    logic       early_read;
    logic [1:0] poison_received; // messages in this clock
    logic       contribution;   // accepted: not a duplicate, not poisoned
    logic       refused;        // causes LD_MASK, BIND, SELECTOR, PARTIAL, STATE_AREA
    logic       unmapped;
    logic       unsupported;
    logic       mem_read_error;
    logic       mem_write_error;
    logic       mem_poison;     // memory returned a line that it marks as poisoned
  } core_events_t;

  typedef struct packed {         // first refused access, captured by the registers
    logic               valid;
    logic [3:0]         cause;
    logic               write;
    logic [3:0]         opcode;
    logic [LDID_W-1:0]  ldid;
    logic [TAG_W-1:0]   tag;
    logic [LADDR_W-1:0] addr;
  } access_error_t;

endpackage

`default_nettype wire
