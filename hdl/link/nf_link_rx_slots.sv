// SPDX-License-Identifier: Apache-2.0
// Slot decoder of a received protocol flit (link spec §4-§6). Combinational.
//
// `take` marks a protocol flit. Up to two requests and one data header are handed out, each slot
// read as its format says. `is_data` marks the G0 slots and `after_hdr` the slots after the data
// header: whose data they hold is the assembler's business. `owed` (0..3) data slots of the
// previous message should come first. Errors are strobes, at most one of each kind a flit.

`default_nettype none

module nf_link_rx_slots
  import nf_pkg::*, nf_link_pkg::*;
(
  input  wire logic                  take,     // a protocol flit
  input  wire logic [11:0]           formats,  // flit[16:5]: three bits a slot
  input  wire logic                  hdr_be,   // flit[3]
  input  wire logic                  hdr_sz,   // flit[4]
  input  wire logic [PAYLOAD_W-1:32] flit,     // its slots
  input  wire logic [3:0]            owed,     // data slots owed by the previous message

  output logic [1:0]                 req_valid,  // 00, 01 or 11
  output m2s_req_t                   req0,       // first request
  output m2s_req_t                   req1,       // second request

  output logic                       hdr_valid,    // a data header
  output rwd_header_t                hdr,          // the header
  output logic [3:0]                 hdr_slots,    // data slots that the header announces
  output logic                       hdr_illegal,  // Sz/BE does not fit the opcode
  output logic [3:1]                 is_data,      // slots of format G0
  output logic [3:1]                 after_hdr,    // slots after the data header

  output logic                       protocol_error,  // a slot breaks a rule
  output logic                       cache_message    // a message of CXL.cache, which is ignored
);
  logic [3:0] is_req, is_rwd, is_cache, is_reserved;
  logic [3:1] must;  // slots that rollover claims

  // ---- slot 0: header formats, fields start at bit 32 ------------------------------------------
  // Formats 0-3 are CXL.cache: any bit set is a cache message, as an unused part is all zero.
  logic [2:0] fmt0;

  assign fmt0           = formats[2:0];
  assign is_req[0]      = take && (fmt0 == M2S_H_REQ) && flit[32];
  assign is_rwd[0]      = take && (fmt0 == M2S_H_RWD) && flit[32];
  assign is_reserved[0] = take && (fmt0 >= 3'd6);
  assign is_cache[0]    = take && (fmt0 <= 3'd3) && |flit[127:32];

  // ---- slots 1-3: generic formats --------------------------------------------------------------
  for (genvar s = 1; s < 4; s++) begin : g_slot
    logic [2:0] fmt;
    logic       mem;

    assign fmt  = formats[3*s +: 3];
    assign mem  = (fmt == M2S_G_REQ) || (fmt == M2S_G_RWD);

    assign must[s]        = take && (owed >= 4'(s));
    assign is_data[s]     = take && (fmt == M2S_G_DATA);
    assign is_req[s]      = take && (fmt == M2S_G_REQ) && flit[128*s];
    assign is_rwd[s]      = take && (fmt == M2S_G_RWD) && flit[128*s];
    assign is_reserved[s] = take && (fmt >= 3'd6);
    assign is_cache[s]    = take && ((mem && flit[128*s + CACHE_PART_LSB]) ||
                                     ((fmt >= 3'd1) && (fmt <= 3'd3) && |flit[128*s +: 128]));
  end

  // ---- bits of the message that each slot would hold -------------------------------------------
  logic [M2S_MESSAGE_W-1:0] message [4];

  for (genvar s = 0; s < 4; s++) begin : g_message
    assign message[s] = flit[((s == 0) ? 32 : 128 * s) +: M2S_MESSAGE_W];
  end

  // ---- requests: the first two in slot order ---------------------------------------------------
  logic [3:0] req_first, req_rest, req_second, rwd_first;

  assign req_first  = is_req & (~is_req + 4'd1);
  assign req_rest   = is_req & ~req_first;
  assign req_second = req_rest & (~req_rest + 4'd1);
  assign req_valid  = {|req_second, |req_first};
  assign req0 = req_of(req_first[0] ? message[0] : req_first[1] ? message[1] :
                       req_first[2] ? message[2] : message[3]);
  assign req1 = req_of(req_second[1] ? message[1] : req_second[2] ? message[2] : message[3]);

  // ---- data header; it always announces four chunks --------------------------------------------
  assign rwd_first  = is_rwd & (~is_rwd + 4'd1);
  assign hdr_valid  = |is_rwd;
  assign hdr        = rwd_header_of(rwd_first[0] ? message[0] : rwd_first[1] ? message[1] :
                                    rwd_first[2] ? message[2] : message[3]);
  assign hdr_slots  = hdr_be ? 4'd5 : 4'd4;
  assign hdr_illegal = !hdr_sz || ((hdr.opcode == RWD_MEM_WR_PTL) && !hdr_be) ||
                       ((hdr.opcode == RWD_MEM_WR) && hdr_be);

  assign after_hdr = {|rwd_first[2:0], |rwd_first[1:0], rwd_first[0]};

  // ---- what is wrong ---------------------------------------------------------------------------
  assign cache_message  = |is_cache;
  assign protocol_error = (|(must & ~is_data)) || (|is_reserved) || (is_rwd != rwd_first) ||
                          (req_rest != req_second) || (hdr_valid && hdr_illegal);
endmodule

`default_nettype wire
