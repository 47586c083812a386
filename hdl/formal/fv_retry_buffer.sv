// SPDX-License-Identifier: Apache-2.0
// nf_link_retry_buffer (link spec §9), for any depth of the host's acknowledgements and any place
// that it asks for: a replay offers the flits from that place on, in order, each once, unchanged,
// and no flit is overwritten before it is acknowledged. One flit, which `mark` chooses, is
// followed. No bit of the RAM flips (`ram_flip` is 0): test_link_ram_flips flips them.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_retry_buffer
  import nf_link_pkg::*, nf_ram_pkg::*;
#(
  parameter int DEPTH = 4
) (
  input wire logic                 clk,
  input wire logic                 store,
  input wire logic [PAYLOAD_W-1:0] store_flit,
  input wire logic                 store_adf,
  input wire logic                 store_run,
  input wire logic                 ack,
  input wire logic [NUM_ACK_W-1:0] ack_count,
  input wire logic [SEQ_W-1:0]     asked,
  input wire logic                 peek,
  input wire logic [SEQ_W-1:0]     peek_at,
  input wire logic                 restore,
  input wire logic                 rewind,
  input wire logic                 replay_ready,
  input wire logic                 mark
);
  localparam int WORD_W = PAYLOAD_W + 2;

  ram_flip_t            ram_flip;
  ram_fault_t           ram_fault;
  logic                 ack_error, asked_held, rewind_adf, replay_valid, replay_adf, replay_run;
  logic                 replay_bad;
  logic [PAYLOAD_W-1:0] replay_flit;
  logic [SEQ_W-1:0]     wr_ptr, free, rewind_to;

  `NF_FORMAL_RESET

  assign ram_flip = '0;

  nf_link_retry_buffer #(.DEPTH(DEPTH), .ECC(0)) dut (.*);

  // ---- reference: flits by the number of flits that were stored before them, from the end -------
  logic [31:0]       held_q;         // flits that are not acknowledged
  logic [31:0]       back_q;         // how far the next flit of a replay stands behind the newest
  logic              followed_q, replayed_q, peeked_q;
  logic [31:0]       age_q;          // the same of the flit that is followed
  logic [WORD_W-1:0] word_q, offered;
  logic [SEQ_W-1:0]  peek_at_q;
  logic [31:0]       peek_back, peek_back_q, freed;
  logic              step;

  assign step      = replay_valid && replay_ready;
  assign offered   = {replay_run, replay_adf, replay_flit};
  assign freed     = !ack ? 0 : (32'(ack_count) > held_q) ? held_q : 32'(ack_count);
  assign peek_back = (32'(wr_ptr) + DEPTH - 32'(peek_at)) % DEPTH;
  assign rewind_to = peek_at_q;

  // ---- what the sender keeps to ----------------------------------------------------------------
  `NF_ASSUME(RoomIsKept_M, !store || held_q < DEPTH - 1)
  `NF_ASSUME(StoresAlone_M, !store || !(replay_valid || peek || rewind || restore || peeked_q))
  `NF_ASSUME(PausesWhilePeeked_M, !step || !(peek || rewind || restore || peeked_q))
  `NF_ASSUME(OneAtATime_M, $onehot0({peek, rewind, restore}))
  `NF_ASSUME(RewindsWherePeeked_M, !rewind || peeked_q)
  `NF_ASSUME(PeeksWhatIsHeld_M, !peek || (32'(peek_at) < DEPTH && peek_back <= held_q))
  `NF_ASSUME(PeeksOnce_M, !peek || !peeked_q)

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      held_q      <= '0;
      back_q      <= '0;
      followed_q  <= 1'b0;
      replayed_q  <= 1'b0;
      age_q       <= '0;
      word_q      <= '0;
      peeked_q    <= 1'b0;
      peek_at_q   <= '0;
      peek_back_q <= '0;
    end else begin
      held_q <= held_q + 32'(store) - freed;
      back_q <= rewind ? peek_back_q : step ? back_q - 1 : back_q;

      if (peek) begin
        peeked_q    <= 1'b1;
        peek_at_q   <= peek_at;
        peek_back_q <= peek_back;
      end else if (rewind || restore) begin
        peeked_q <= 1'b0;
      end

      if (!followed_q) begin
        followed_q <= store && mark;
        age_q      <= 1;
        word_q     <= {store_run, store_adf, store_flit};
      end else begin
        // It may be replayed again, acknowledged or not, until its place is taken.
        followed_q <= !(store && age_q == DEPTH - 1);
        age_q      <= age_q + 32'(store);
      end
      if (step && followed_q && back_q == age_q) replayed_q <= 1'b1;
    end
  end

  `NF_ASSERT(Free_A, 32'(free) == DEPTH - held_q && held_q <= DEPTH - 1)
  `NF_ASSERT(AckError_A, ack_error == (ack && 32'(ack_count) > held_q))
  `NF_ASSERT(Asked_A, asked_held == (32'(asked) < DEPTH &&
                                     (32'(wr_ptr) + DEPTH - 32'(asked)) % DEPTH <= held_q))
  `NF_ASSERT(Replays_A, replay_valid == (back_q != 0))
  `NF_ASSERT_NEVER(WrongFlit_A, replay_valid && !peeked_q && followed_q && back_q == age_q &&
                                offered != word_q)
  `NF_ASSERT_NEVER(RewindAdf_A, rewind && followed_q && peek_back_q == age_q &&
                                rewind_adf != word_q[PAYLOAD_W])
  `NF_ASSERT_NEVER(Bad_A, replay_bad || ram_fault.bad)

  // ---- what induction needs to know of the inside -----------------------------------------------
  logic [31:0] mine, next;
  assign mine = (32'(wr_ptr) + DEPTH - age_q) % DEPTH;
  assign next = (32'(wr_ptr) + DEPTH - back_q) % DEPTH;

  `NF_ASSERT(Range_A, 32'(wr_ptr) < DEPTH && back_q < DEPTH && peek_back_q < DEPTH &&
                      (!followed_q || (age_q >= 1 && age_q < DEPTH)))
  `NF_ASSERT(Pointer_A, 32'(dut.rd_q) == next)
  `NF_ASSERT_NEVER(Kept_A, followed_q && WORD_W'(dut.mem[$clog2(DEPTH)'(mine)]) != word_q)
  `NF_ASSERT_NEVER(Ahead_A, back_q != 0 && !peeked_q && followed_q && back_q == age_q &&
                            WORD_W'(dut.out_q) != word_q)
  `NF_ASSERT(Peeked_A, !peeked_q || (32'(peek_at_q) ==
                                     (32'(wr_ptr) + DEPTH - peek_back_q) % DEPTH))
  `NF_ASSERT_NEVER(PeekedFlit_A, peeked_q && followed_q && peek_back_q == age_q &&
                                 WORD_W'(dut.out_q) != word_q)

  `NF_COVER(ReplayedTwice_C, replayed_q && followed_q && back_q == age_q && rewind)
  `NF_COVER(LongReplay_C, back_q == DEPTH - 1 && step)
endmodule

`default_nettype wire
