// SPDX-License-Identifier: Apache-2.0
// Rollover count and assembly of received data messages (link spec §6): chunks and byte enables of
// protocol flits and all-data flits become whole lines.
//
// Every data slot while something is owed takes the next chunk of the oldest message. With a sender
// that keeps the rules one message at most is unfinished at the end of a flit. If a slot that had
// to be data was not, its message is late and the next header waits for it; there can be no
// third, since more than three slots are owed then and all-data flits come first.
//
// `owed` is the count that both ends of the link keep. A finished message is offered for one clock
// (`out_valid`), at most one a clock; there is no back-pressure, the credits guarantee room. A
// header (`hdr_valid`, with `take_protocol` only) with `hdr_drop` (no credit) is followed but not
// delivered. `stray_data`: data, none owed.

`default_nettype none
`include "nf_assert.svh"

module nf_link_rx_data
  import nf_pkg::*, nf_link_pkg::*;
(
  input  wire logic                 clk,    // clock, rising edge
  input  wire logic                 rst_n,  // asynchronous reset, active low

  input  wire logic                 take_protocol,  // protocol flit
  input  wire logic                 take_adf,       // all-data flit
  input  wire logic [PAYLOAD_W-1:0] flit,           // its payload

  input  wire logic                 hdr_valid,    // a data header
  input  wire rwd_header_t          hdr,          // the header
  input  wire logic [3:0]           hdr_slots,    // data slots that it announces
  input  wire logic                 hdr_illegal,  // Sz/BE does not fit the opcode
  input  wire logic                 hdr_drop,     // it has no credit: follow it, deliver nothing
  input  wire logic [3:1]           is_data,      // slots of format G0
  input  wire logic [3:1]           after_hdr,    // slots after the data header

  output logic [3:0]                owed,        // data slots owed
  output logic [1:0]                busy,  // unfinished messages that hold a credit
  output logic                      stray_data,  // a data slot while none is owed
  output logic                      out_valid,   // whole message; no back-pressure
  output m2s_rwd_t                  out          // the message
);
  // The message that is filled, and the one that waits for it.
  logic              valid_q, drop_q, has_be_q, illegal_q;
  logic              next_valid_q, next_drop_q, next_illegal_q;
  rwd_header_t       meta_q, next_meta_q;
  logic [3:0]        owed_q, next_slots_q;
  logic [2:0]        chunk_q;       // index of the next chunk; 4 = the byte enables
  logic [LINE_W-1:0] line_q;

  // ---- whose data stands in which slot ---------------------------------------------------------
  logic [3:0] data, before1, before2, old_sel, new_sel, old_take, owed_after;
  logic [2:0] new_take;

  assign data    = take_adf ? 4'b1111 : take_protocol ? {is_data, 1'b0} : 4'b0000;
  assign before1 = {3'd0, data[0]} + {3'd0, data[1]};  // data slots before slot 2, before slot 3
  assign before2 = before1 + {3'd0, data[2]};

  assign old_sel[0] = data[0];  // an all-data flit, which comes only when more than three are owed
  assign old_sel[1] = data[1] && (owed_q > {3'd0, data[0]});
  assign old_sel[2] = data[2] && (owed_q > before1);
  assign old_sel[3] = data[3] && (owed_q > before2);

  assign new_sel    = data & ~old_sel & (next_valid_q ? 4'b1111 : {after_hdr, 1'b0});
  assign stray_data = |(data & ~old_sel & ~new_sel);

  assign old_take   = {3'd0, old_sel[0]} + {3'd0, old_sel[1]} + {3'd0, old_sel[2]} +
                      {3'd0, old_sel[3]};
  assign new_take   = {2'd0, new_sel[1]} + {2'd0, new_sel[2]} + {2'd0, new_sel[3]};
  assign owed_after = owed_q - old_take;

  // ---- data of the message that is filled: the first data slots of the flit --------------------
  logic [SLOT_W-1:0]   slot0, slot1, slot2, slot3;
  logic [4*SLOT_W-1:0] packed_data;  // the data slots without the gaps between them
  logic [LINE_W-1:0]   line_old;
  logic [BE_W-1:0]     be_old;
  logic [1:0]          be_from;

  assign slot0 = flit[SLOT_W*0 +: SLOT_W];
  assign slot1 = flit[SLOT_W*1 +: SLOT_W];
  assign slot2 = flit[SLOT_W*2 +: SLOT_W];
  assign slot3 = flit[SLOT_W*3 +: SLOT_W];

  assign packed_data = take_adf ? {slot3, slot2, slot1, slot0} :
                       {slot3, slot3, (data[1] && data[2]) ? slot2 : slot3,
                        data[1] ? slot1 : data[2] ? slot2 : slot3};

  for (genvar c = 0; c < 4; c++) begin : g_chunk
    logic [2:0] ahead;  // data slots of this flit that stand before chunk c
    logic       here;

    assign ahead = 3'(c) - chunk_q;
    assign here  = (3'(c) >= chunk_q) && ({1'b0, ahead} < old_take);
    assign line_old[SLOT_W*c +: SLOT_W] = here ? packed_data[SLOT_W*ahead[1:0] +: SLOT_W]
                                               : line_q[SLOT_W*c +: SLOT_W];
  end

  // They come with the last slot, and are read in that clock alone.
  assign be_from = owed_q[1:0] - 2'd1;
  assign be_old  = has_be_q ? packed_data[SLOT_W*be_from + BE_SLOT_LSB +: BE_W] : '1;

  // ---- data of the next message ----------------------------------------------------------------
  logic [SLOT_W-1:0] new0, new1;

  assign new0 = new_sel[1] ? slot1 : new_sel[2] ? slot2 : slot3;
  assign new1 = (new_sel[1] && new_sel[2]) ? slot2 : slot3;

  // ---- state -----------------------------------------------------------------------------------
  logic       promote, done, behind_drop, behind_illegal;
  logic [3:0] behind_slots;

  assign done           = (owed_after == '0);
  assign promote        = done && (hdr_valid || next_valid_q);  // from now on that one is filled
  assign behind_slots   = next_valid_q ? next_slots_q   : hdr_slots;
  assign behind_drop    = next_valid_q ? next_drop_q    : hdr_drop;
  assign behind_illegal = next_valid_q ? next_illegal_q : hdr_illegal;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      valid_q      <= 1'b0;
      owed_q       <= '0;
      next_valid_q <= 1'b0;
    end else begin
      valid_q      <= promote || (valid_q && !done);
      owed_q       <= promote ? behind_slots - {1'b0, new_take} : owed_after;
      next_valid_q <= !promote && (hdr_valid || next_valid_q);
    end
  end

  always_ff @(posedge clk) begin
    if (hdr_valid) begin
      next_meta_q    <= hdr;
      next_drop_q    <= hdr_drop;
      next_illegal_q <= hdr_illegal;
      next_slots_q   <= hdr_slots;
    end
    if (promote) begin
      meta_q    <= next_valid_q ? next_meta_q : hdr;
      drop_q    <= behind_drop;
      has_be_q  <= (behind_slots == 4'd5);
      illegal_q <= behind_illegal;
      chunk_q   <= new_take;
      line_q    <= {slot3, slot3, new1, new0};  // chunks that have not come yet are overwritten
    end else if (take_protocol || take_adf) begin
      chunk_q   <= chunk_q + old_take[2:0];
      line_q    <= line_old;
    end
  end

  assign owed      = owed_q + (next_valid_q ? next_slots_q : 4'd0);
  assign busy      = {1'b0, valid_q && !drop_q} + {1'b0, next_valid_q && !next_drop_q};
  assign out_valid = valid_q && !drop_q && done;
  assign out       = make_rwd(meta_q, illegal_q, be_old, line_old);

  `NF_ASSERT_NEVER(OwedRange_A, owed > 4'd8)
  `NF_ASSERT_NEVER(HeaderAlone_A, hdr_valid && !take_protocol)
  `NF_ASSERT_NEVER(AdfOnlyWhenDue_A, take_adf && (owed <= 4'd3))
  `NF_ASSERT_NEVER(ProtocolWhenAdfDue_A, take_protocol && (owed > 4'd3))
  `NF_ASSERT_NEVER(OwedNeedsMessage_A, (owed_q != '0) != valid_q)
  `NF_ASSERT_NEVER(FollowerNeedsFirst_A, next_valid_q && !valid_q)
endmodule

`default_nettype wire
