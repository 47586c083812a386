// SPDX-License-Identifier: Apache-2.0
// Constants and field layouts of the CXL.mem link layer, 68-byte flits (link spec §1-§9).
//
// Everything the link spec marks [M] (from memory, to be checked against the official document) is
// in the block "unconfirmed" below and nowhere else in the RTL.

`default_nettype none

package nf_link_pkg;
  import nf_pkg::*;

  // ---- unconfirmed [M]: change here only -------------------------------------------------------
  localparam int FLUSH_RETIMER = 32;  // clocks until pending acks or credits force an LLCRD (§9)

  // Byte enables travel in the low half of their slot, BE[i] = bit i (§4).
  localparam int BE_SLOT_LSB = 0;

  // ---- frame (§1) ------------------------------------------------------------------------------
  localparam int PAYLOAD_W = 512;
  localparam int CRC_W     = 16;
  localparam int FLIT_W    = PAYLOAD_W + CRC_W;
  localparam int SLOT_W    = 128;

  typedef enum logic [7:0] {
    PID_CACHEMEM     = 8'h55,
    PID_CACHEMEM_EDS = 8'h87,
    PID_NULL         = 8'h99,
    PID_NULL_EDS     = 8'h4B,
    PID_IO           = 8'hFF,
    PID_IO_EDS       = 8'hD2,
    PID_ALMP         = 8'hCC,
    PID_ALMP_EDS     = 8'h1E
  } protocol_id_e;

  // ---- CRC (§2): x^16 + the terms below --------------------------------------------------------
  localparam logic [15:0] CRC_POLY = 16'hF053;

  // Payload bits that CRC bit `row` is the parity of.
  function automatic logic [PAYLOAD_W-1:0] crc_row(input logic [3:0] row);
    logic [15:0] column;
    column = CRC_POLY;
    for (int i = 0; i < PAYLOAD_W; i++) begin
      crc_row[i] = column[row];
      column = {column[14:0], 1'b0} ^ (column[15] ? CRC_POLY : 16'h0000);
    end
  endfunction

  // ---- slot formats (§4) -----------------------------------------------------------------------
  typedef enum logic [2:0] {
    M2S_H_RWD = 3'd4,
    M2S_H_REQ = 3'd5
  } m2s_header_format_e;

  typedef enum logic [2:0] {
    M2S_G_DATA = 3'd0,
    M2S_G_REQ  = 3'd4,
    M2S_G_RWD  = 3'd5
  } m2s_generic_format_e;

  typedef enum logic [2:0] {
    S2M_H_DRS_NDR = 3'd3,
    S2M_H_2NDR    = 3'd4,
    S2M_H_2DRS    = 3'd5   // multi-header
  } s2m_header_format_e;

  typedef enum logic [2:0] {
    S2M_G_DATA = 3'd0,
    S2M_G_2NDR = 3'd5,
    S2M_G_3DRS = 3'd6   // multi-header
  } s2m_generic_format_e;

  localparam int CACHE_PART_LSB = 88;  // CXL.cache part next to the Req or RwD of G4, G5

  // ---- control flits (§7) ----------------------------------------------------------------------
  typedef enum logic [3:0] {
    LLCTRL_LLCRD = 4'h0,
    LLCTRL_RETRY = 4'h1,
    LLCTRL_INIT  = 4'hC
  } llctrl_e;

  typedef enum logic [3:0] {
    SUB_LLCRD_ACK = 4'd1
  } llcrd_subtype_e;

  typedef enum logic [3:0] {
    SUB_RETRY_IDLE  = 4'd0,
    SUB_RETRY_REQ   = 4'd1,
    SUB_RETRY_ACK   = 4'd2,
    SUB_RETRY_FRAME = 4'd3
  } retry_subtype_e;

  typedef enum logic [3:0] {
    SUB_INIT_PARAM = 4'd8
  } init_subtype_e;

  localparam int INIT_VERSION = 2;

  // Bits that may be nonzero in each control flit, of {payload[63:0], header[63:0]}.
  localparam logic [63:0] CTL_HDR_ANY    = 64'h0000_00FF_0000_0001;  // Type, LLCTRL, SubType
  localparam logic [63:0] CTL_HDR_LLCRD  = 64'h0000_00FF_FFF0_0005;  // and Ak, the credit nibbles
  localparam logic [63:0] CTL_PAY_LLCRD  = 64'h0000_0000_0000_00F7;
  localparam logic [63:0] CTL_PAY_REQ    = 64'h0000_0000_03FF_00FF;
  localparam logic [63:0] CTL_PAY_ACK    = 64'h0000_0000_FFFF_FFFB;
  localparam logic [63:0] CTL_PAY_INIT   = 64'h0000_0000_FF00_000F;

  // Initialisation of this end of the link.
  typedef enum logic [1:0] {
    INIT_SILENT = 2'd0,  // nothing clean received yet
    INIT_PARAM  = 2'd1,  // INIT.Param is to be sent
    INIT_WAIT   = 2'd2,  // sent; the peer's is still missing
    INIT_UP     = 2'd3
  } init_state_e;

  // ---- link parameters (§9) --------------------------------------------------------------------
  localparam int ACK_FORCE_THRESHOLD = 16;
  localparam int NUM_ACK_W           = 8;   // NumAck must hold 255
  localparam int PEER_CREDIT_W       = 10;  // counters of credits that the host granted

  // ---- link-level retry (§9) -------------------------------------------------------------------
  localparam int SEQ_W          = 8;   // ESeq, pointers, NumFreeBuf
  localparam int RETRY_W        = 5;   // NUM_RETRY, NUM_PHY_REINIT
  localparam int RETRY_FRAMES   = 5;   // before a RETRY.Req or RETRY.Ack
  localparam int MAX_RETRY      = 10;
  localparam int MAX_PHY_REINIT = 10;
  localparam int INITIAL_WRAP   = 9;   // of ESeq, until the peer's INIT.Param has come

  // Number of credits that a credit code stands for: 0,1,2,4,..,64.
  function automatic logic [6:0] credit_count(input logic [2:0] code);
    credit_count = 7'((8'd1 << code) >> 1);  // 0 of code 0
  endfunction

  // Largest credit code that `count` credits cover.
  function automatic logic [2:0] credit_code(input logic [8:0] count);
    casez (count)
      9'b1????????, 9'b01???????, 9'b001??????: credit_code = 3'd7;
      9'b0001?????:                             credit_code = 3'd6;
      9'b00001????:                             credit_code = 3'd5;
      9'b000001???:                             credit_code = 3'd4;
      9'b0000001??:                             credit_code = 3'd3;
      9'b00000001?:                             credit_code = 3'd2;
      9'b000000001:                             credit_code = 3'd1;
      default:                                  credit_code = 3'd0;
    endcase
  endfunction

  // Credit nibble of a header: CXL.mem flag and code, all zero for no credit.
  function automatic logic [3:0] credit_nibble(input logic [2:0] code);
    credit_nibble = {code != 3'd0, code};
  endfunction

  // Slot 0 of a control flit.
  function automatic logic [SLOT_W-1:0] control_slot(
    input llctrl_e llctrl, input logic [3:0] subtype, input logic ak,
    input logic [3:0] req_crd, input logic [3:0] data_crd, input logic [63:0] payload
  );
    control_slot = {payload, 24'd0, subtype, llctrl, data_crd, req_crd, 4'd0, 12'd0, 3'd0, 2'd0, ak,
                    1'b0, 1'b1};
  endfunction

  // ---- messages (§5) ---------------------------------------------------------------------------
  localparam int M2S_MESSAGE_W = 81;  // bits of a Req or RwD in a slot

  // An RwD without its data.
  typedef struct packed {
    rwd_opcode_e        opcode;
    logic [TAG_W-1:0]   tag;
    logic [LDID_W-1:0]  ldid;
    logic [LADDR_W-1:0] addr;
    logic               poison;
  } rwd_header_t;

  // A DRS without its data.
  typedef struct packed {
    logic [TAG_W-1:0]  tag;
    logic [LDID_W-1:0] ldid;
    devload_e          devload;
    logic              poison;
  } drs_header_t;

  // Opcodes as they come, also those without a name (see mode_of).
  typedef struct packed {
    req_opcode_e code;
  } req_opcode_bits_t;

  typedef struct packed {
    rwd_opcode_e code;
  } rwd_opcode_bits_t;

  function automatic m2s_req_t req_of(input logic [M2S_MESSAGE_W-1:0] bits);
    req_opcode_bits_t opcode;
    m2s_req_t         req;
    opcode     = bits[4:1];
    req.opcode = opcode.code;
    req.tag    = bits[27:12];
    req.ldid   = bits[80:77];
    req.addr   = bits[74:29];
    return req;
  endfunction

  function automatic rwd_header_t rwd_header_of(input logic [M2S_MESSAGE_W-1:0] bits);
    rwd_opcode_bits_t opcode;
    rwd_header_t      header;
    opcode        = bits[4:1];
    header.opcode = opcode.code;
    header.tag    = bits[27:12];
    header.ldid   = bits[80:77];
    header.addr   = bits[73:28];
    header.poison = bits[74];
    return header;
  endfunction

  function automatic m2s_rwd_t make_rwd(
    input rwd_header_t header, input logic illegal, input logic [BE_W-1:0] be,
    input logic [LINE_W-1:0] data
  );
    m2s_rwd_t rwd;
    rwd.illegal = illegal;
    rwd.opcode  = header.opcode;
    rwd.tag     = header.tag;
    rwd.ldid    = header.ldid;
    rwd.addr    = header.addr;
    rwd.poison  = header.poison;
    rwd.be      = be;
    rwd.data    = data;
    return rwd;
  endfunction

  function automatic drs_header_t drs_header_of(input s2m_drs_t drs);
    drs_header_t header;
    header.tag     = drs.tag;
    header.ldid    = drs.ldid;
    header.devload = drs.devload;
    header.poison  = drs.poison;
    return header;
  endfunction

  // Opcode Cmp / MemData, MetaField No-Op, MetaValue 0; an absent message is zero.
  function automatic logic [29:0] ndr_bits(input logic valid, input s2m_ndr_t ndr);
    ndr_bits = valid ? {ndr.devload, ndr.ldid, ndr.tag, 2'b00, 2'b11, 3'd0, 1'b1} : 30'd0;
  endfunction

  function automatic logic [39:0] drs_bits(input logic valid, input drs_header_t drs);
    drs_bits = valid ? {9'd0, drs.devload, drs.ldid, drs.poison, drs.tag, 2'b00, 2'b11, 3'd0, 1'b1}
                     : 40'd0;
  endfunction

endpackage

`default_nettype wire
