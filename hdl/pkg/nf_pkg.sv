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
  // A register may hold codes that are not listed here: a commit refuses them.
  typedef enum logic [3:0] {
    MODE_IDENTITY  = 4'd0,
    MODE_G_BINARY  = 4'd1,
    MODE_G_TERNARY = 4'd2,
    MODE_FP32      = 4'd3,
    MODE_G_INT4    = 4'd4,
    MODE_G_INT8    = 4'd5,
    MODE_G_TERN5   = 4'd6   // with the parameter TERN5 alone
  } mode_e;

  // An enum is read from a field of a register or a flit through a packed struct: Icarus refuses a
  // cast, and the struct carries codes that have no name along unchanged.
  typedef struct packed {
    mode_e code;
  } mode_bits_t;

  function automatic mode_e mode_of(input logic [3:0] code);
    mode_bits_t bits;
    bits = code;
    return bits.code;
  endfunction

  // ---- CXL.mem opcodes ------------------------------------------------------------------------
  // A host may send codes that are not listed here.
  typedef enum logic [3:0] {
    REQ_MEM_INV     = 4'd0,
    REQ_MEM_RD      = 4'd1,
    REQ_MEM_RD_DATA = 4'd2,
    REQ_MEM_RD_FWD  = 4'd3,
    REQ_MEM_WR_FWD  = 4'd4,
    REQ_MEM_SPEC_RD = 4'd8,
    REQ_MEM_INV_NT  = 4'd9
  } req_opcode_e;

  typedef enum logic [3:0] {
    RWD_MEM_WR     = 4'd1,
    RWD_MEM_WR_PTL = 4'd2
  } rwd_opcode_e;

  typedef enum logic [1:0] {
    DEVLOAD_LIGHT    = 2'b00,
    DEVLOAD_OPTIMAL  = 2'b01,
    DEVLOAD_MODERATE = 2'b10,
    DEVLOAD_SEVERE   = 2'b11
  } devload_e;

  // ---- AXI4 and AXI4-Lite codes ---------------------------------------------------------------
  typedef enum logic [1:0] {
    AXI_RESP_OKAY   = 2'b00,
    AXI_RESP_EXOKAY = 2'b01,
    AXI_RESP_SLVERR = 2'b10,
    AXI_RESP_DECERR = 2'b11
  } axi_resp_e;

  typedef enum logic [1:0] {
    AXI_BURST_FIXED = 2'b00,
    AXI_BURST_INCR  = 2'b01,
    AXI_BURST_WRAP  = 2'b10
  } axi_burst_e;

  // ---- messages between the link and the core -------------------------------------------------
  typedef struct packed {
    req_opcode_e        opcode;
    logic [TAG_W-1:0]   tag;
    logic [LDID_W-1:0]  ldid;
    logic [LADDR_W-1:0] addr;
  } m2s_req_t;

  typedef struct packed {
    logic               illegal;  // Sz/BE of the flit header did not fit the opcode: to refuse
    rwd_opcode_e        opcode;
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
    devload_e           devload;
  } s2m_ndr_t;

  typedef struct packed {         // opcode is always MemData, MetaField always No-Op
    logic [TAG_W-1:0]   tag;
    logic [LDID_W-1:0]  ldid;
    devload_e           devload;
    logic               poison;
    logic [LINE_W-1:0]  data;
  } s2m_drs_t;

  function automatic s2m_ndr_t make_ndr(
    input logic [TAG_W-1:0] tag, input logic [LDID_W-1:0] ldid, input devload_e devload
  );
    s2m_ndr_t ndr;
    ndr.tag     = tag;
    ndr.ldid    = ldid;
    ndr.devload = devload;
    return ndr;
  endfunction

  function automatic s2m_drs_t make_drs(
    input logic [TAG_W-1:0] tag, input logic [LDID_W-1:0] ldid, input devload_e devload,
    input logic poison, input logic [LINE_W-1:0] data
  );
    s2m_drs_t drs;
    drs.tag     = tag;
    drs.ldid    = ldid;
    drs.devload = devload;
    drs.poison  = poison;
    drs.data    = data;
    return drs;
  endfunction

  // ---- region descriptor ----------------------------------------------------------------------
  typedef struct packed {
    logic [LADDR_W-1:0] base;        // first line of the window
    logic [LADDR_W-1:0] state_base;  // first line of the backing area
    logic [5:0]         lines_log2;
    logic [7:0]         workers;
    mode_e              mode;
    logic               tie_minus;
    logic               strict;
    logic               bind_ld;
    logic [1:0]         bind_shift;  // an LD-ID has 2^bind_shift workers
    logic               codes_signed;  // integer codes are two's complement
    logic               keep_sum;    // FP32: records have room for a sum
    logic               tern5;       // G_TERN5, in a device that has it: counts go to 2 W
    logic [7:0]         threshold;
    logic [15:0]        ld_mask;
  } region_desc_t;

  // The descriptors of all regions travel in one vector, region 0 lowest, as long as for the most
  // regions that there can be: those above REGIONS are zero.
  localparam int MAX_REGIONS = 16;
  localparam int DESC_W      = $bits(region_desc_t);
  localparam int DESCS_W     = MAX_REGIONS * DESC_W;

  function automatic region_desc_t desc_of(
    input logic [DESCS_W-1:0] descs, input logic [3:0] region
  );
    return descs[32'(region)*DESC_W +: DESC_W];
  endfunction

  // ---- control window -------------------------------------------------------------------------
  localparam int CTRL_LINES_LOG2 = 6;   // 64 lines, in each of which are 16 registers
  localparam int CTRL_WORDS      = 16;

  // An access of the window to the registers (see nf_ctrl_window).
  typedef struct packed {
    logic                       lock;   // nobody else may access registers
    logic [CTRL_LINES_LOG2-1:0] line;
    logic                       read;
    logic                       write;
    logic [3:0]                 word;   // of a write
    logic [31:0]                data;
  } ctrl_bus_t;

  function automatic ctrl_bus_t make_ctrl_bus(
    input logic lock, input logic [CTRL_LINES_LOG2-1:0] line, input logic read, input logic write,
    input logic [3:0] word, input logic [31:0] data
  );
    ctrl_bus_t bus;
    bus.lock  = lock;
    bus.line  = line;
    bus.read  = read;
    bus.write = write;
    bus.word  = word;
    bus.data  = data;
    return bus;
  endfunction

  // The LD-ID that owns the registers of a region.
  typedef struct packed {
    logic              valid;
    logic [LDID_W-1:0] ldid;
  } owner_t;

  localparam int OWNER_W = $bits(owner_t);

  // Result of a commit, STATUS.CODE of the region.
  typedef enum logic [3:0] {
    COMMIT_OK              = 4'd0,
    COMMIT_WORKERS         = 4'd1,  // W = 0 or W > 64
    COMMIT_THRESHOLD       = 4'd2,  // T = 0
    COMMIT_LINES           = 4'd3,  // window wider than the address space
    COMMIT_BASE_ALIGN      = 4'd4,  // window not naturally aligned
    COMMIT_WINDOW_MEMORY   = 4'd5,  // window not above the memory
    COMMIT_WINDOW_OVERLAP  = 4'd6,  // window overlaps another region's, or the control window
    COMMIT_STATE_ALIGN     = 4'd7,  // state area not aligned to its record
    COMMIT_STATE_MEMORY    = 4'd8,  // state area not inside the memory
    COMMIT_STATE_OVERLAP   = 4'd9,  // state area overlaps another region's
    COMMIT_MODE            = 4'd10, // reserved MODE
    COMMIT_PLANES          = 4'd11  // what W workers can sum to needs more than CNT_W planes
  } commit_code_e;

  typedef struct packed {
    commit_code_e code;
  } commit_code_bits_t;

  // Cause of a refused access, ERR_INFO.CAUSE.
  typedef enum logic [3:0] {
    CAUSE_NONE        = 4'd0,
    CAUSE_UNSUPPORTED = 4'd1,  // opcode not implemented, or illegal Sz/BE
    CAUSE_UNMAPPED    = 4'd2,
    CAUSE_STATE_AREA  = 4'd3,
    CAUSE_LD_MASK     = 4'd4,
    CAUSE_SELECTOR    = 4'd5,
    CAUSE_PARTIAL     = 4'd6,  // MemWrPtl to a low-bit region, or of a part of a register
    CAUSE_BIND        = 4'd7,
    CAUSE_CONTROL     = 4'd8   // write of the control window: by an LD-ID that may not, or poisoned
  } cause_e;

  // ---- link-level retry ------------------------------------------------------------------------
  // Local retry state machine, LINK_STATE.LRSM.
  typedef enum logic [2:0] {
    LRSM_NORMAL     = 3'd0,
    LRSM_LLRREQ     = 3'd1,
    LRSM_LOCAL_IDLE = 3'd2,
    LRSM_PHY_REINIT = 3'd3,
    LRSM_ABORT      = 3'd4
  } lrsm_e;

  // Remote retry state machine, LINK_STATE.RRSM.
  typedef enum logic {
    RRSM_NORMAL = 1'b0,
    RRSM_LLRACK = 1'b1
  } rrsm_e;

  // Kind of a link error, LINK_ERR_INFO.KIND.
  typedef enum logic [3:0] {
    LINK_ERR_NONE        = 4'd0,
    LINK_ERR_CRC         = 4'd1,
    LINK_ERR_PROTOCOL_ID = 4'd2,   // uncorrectable
    LINK_ERR_CONTROL     = 4'd3,   // static bit or unknown control flit
    LINK_ERR_BEFORE_INIT = 4'd4,   // non-RETRY flit before INIT.Param
    LINK_ERR_SECOND_INIT = 4'd5,
    LINK_ERR_SLOT        = 4'd6,   // slot format, Sz/BE, headers, rollover
    LINK_ERR_CREDIT      = 4'd7,   // message without a credit
    LINK_ERR_ACK         = 4'd8,   // more acknowledged than outstanding
    LINK_ERR_RETRY_REQ   = 4'd9,   // ESeq that the retry buffer does not hold
    LINK_ERR_RETRY_ACK   = 4'd10,  // RETRY.Ack that nobody asked for
    LINK_ERR_ABORT       = 4'd11   // retries and retrains are exhausted
  } link_error_e;

  typedef struct packed {
    lrsm_e       lrsm;
    rrsm_e       rrsm;
    logic        aborted;
    link_error_e error_kind;  // strobe: LINK_ERR_NONE in every clock without an error
  } link_status_t;

  function automatic link_status_t make_link_status(
    input lrsm_e lrsm, input rrsm_e rrsm, input logic aborted, input link_error_e error_kind
  );
    link_status_t status;
    status.lrsm       = lrsm;
    status.rrsm       = rrsm;
    status.aborted    = aborted;
    status.error_kind = error_kind;
    return status;
  endfunction

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
    logic       late;           // a contribution to a closed region
    logic       refused;        // any cause but UNMAPPED and UNSUPPORTED
    logic       unmapped;
    logic       unsupported;
    logic       mem_read_error;
    logic       mem_write_error;
    logic       mem_poison;     // memory returned a line that it marks as poisoned
  } core_events_t;

  typedef struct packed {         // first refused access, captured by the registers
    logic               valid;
    cause_e             cause;
    logic               write;
    logic [3:0]         opcode;     // rwd_opcode_e of a write, else req_opcode_e
    logic [LDID_W-1:0]  ldid;
    logic [TAG_W-1:0]   tag;
    logic [LADDR_W-1:0] addr;
  } access_error_t;

  function automatic access_error_t make_access_error(
    input logic valid, input cause_e cause, input logic write, input logic [3:0] opcode,
    input logic [LDID_W-1:0] ldid, input logic [TAG_W-1:0] tag, input logic [LADDR_W-1:0] addr
  );
    access_error_t error;
    error.valid  = valid;
    error.cause  = cause;
    error.write  = write;
    error.opcode = opcode;
    error.ldid   = ldid;
    error.tag    = tag;
    error.addr   = addr;
    return error;
  endfunction

  // Count planes that can be other than zero where each worker adds up to one: of cnt_w.
  function automatic int counting_planes(input int cnt_w);
    return (cnt_w < $clog2(MAX_WORKERS + 1)) ? cnt_w : $clog2(MAX_WORKERS + 1);
  endfunction

endpackage

`default_nettype wire
