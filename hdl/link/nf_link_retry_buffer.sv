// SPDX-License-Identifier: Apache-2.0
// Retry buffer of the sender (link spec §9): retryable flits that have left and are not yet
// acknowledged. WrPtr, RdPtr, NumFreeBuf. One write and one read port, registered read.
//
// `store` takes the flit that leaves in this clock. A replay is prepared by `peek` (reads the flit
// at `peek_at`) and begins with `rewind` (RdPtr := `rewind_to`, the same place, one clock or more
// later; nothing is stored or replayed in between); `rewind_adf` shows beforehand whether it begins
// with an all-data flit, or with one that cannot be trusted and may be one. From the next clock on
// `replay_valid` offers its flits, one a clock, until RdPtr = WrPtr; nothing is stored meanwhile.
// `restore`, in a clock without any of this, undoes a `peek`. `store_adf` and `replay_adf` mark an
// all-data flit, `store_run` and `replay_run` one that all-data flits follow. `replay_bad`: neither
// the flit that is offered nor its marks can be trusted. `ack` flits are freed in the clock they
// are reported; more than outstanding is `ack_error` and frees all. `free` never falls below 1: the
// caller keeps the rules of NumFreeBuf.

`default_nettype none
`include "nf_assert.svh"

module nf_link_retry_buffer
  import nf_link_pkg::*, nf_ram_pkg::*;
#(
  parameter int DEPTH = 64,
  parameter int ECC   = 1,
  parameter int INJECT_DATA = 0
) (
  input  wire logic                 clk,        // clock, rising edge
  input  wire logic                 rst_n,      // asynchronous reset, active low
  input  wire ram_flip_t            ram_flip,   // bit of a protected RAM to flip (RAS_INJECT)
  // Fault that the protected RAM has found in this cycle.
  output ram_fault_t                ram_fault,

  input  wire logic                 store,       // keep the flit that leaves
  input  wire logic [PAYLOAD_W-1:0] store_flit,  // that flit
  input  wire logic                 store_adf,   // it is an all-data flit
  input  wire logic                 store_run,   // all-data flits follow it

  input  wire logic                 ack,        // the peer acknowledges flits
  input  wire logic [NUM_ACK_W-1:0] ack_count,  // number of them
  output logic                      ack_error,  // more than are outstanding

  input  wire logic [SEQ_W-1:0]     asked,  // is it held? an answer in the same clock
  output logic                      asked_held,  // the flit `asked` is held
  input  wire logic                 peek,        // read the flit at `peek_at`
  input  wire logic [SEQ_W-1:0]     peek_at,     // its sequence number
  input  wire logic                 restore,     // undo a `peek`
  input  wire logic                 rewind,      // RdPtr := `rewind_to`
  input  wire logic [SEQ_W-1:0]     rewind_to,   // sequence number to replay from
  output logic                      rewind_adf,  // the replay begins with an all-data flit

  output logic                      replay_valid,  // flit to replay valid
  input  wire logic                 replay_ready,  // it is sent
  output logic [PAYLOAD_W-1:0]      replay_flit,   // flit to replay
  output logic                      replay_adf,    // it is an all-data flit
  output logic                      replay_run,    // all-data flits follow it
  output logic                      replay_bad,    // it cannot be trusted

  output logic [SEQ_W-1:0]          wr_ptr,  // WrPtr
  output logic [SEQ_W-1:0]          free     // NumFreeBuf
);
  localparam logic [SEQ_W-1:0] LAST = SEQ_W'(DEPTH - 1);
  localparam logic [SEQ_W-1:0] FULL = SEQ_W'(DEPTH);
  localparam int               PTR_W = $clog2(DEPTH);

  if ((DEPTH < 22) || (DEPTH > 255)) begin : g_bad_depth
    initial $fatal(1, "nf_link: RETRY_DEPTH must be 22..255");
  end

  localparam int WORD_W  = PAYLOAD_W + 2;
  localparam int CHECK_W = ram_check_w(WORD_W, ECC);

  logic [CHECK_W+WORD_W-1:0] mem [DEPTH];
  logic [CHECK_W+WORD_W-1:0] out_q;
  logic [WORD_W-1:0]    out;
  logic [CHECK_W-1:0]   check;
  logic [SEQ_W-1:0]     wr_q, rd_q, free_q, wr_next, rd_next, rd_d, free_d, outstanding, freed;
  logic [SEQ_W-1:0]     back;
  logic [PTR_W-1:0]     addr, addr_q;
  logic                 step, load;

  // ---- pointers --------------------------------------------------------------------------------
  assign wr_next = (wr_q == LAST) ? '0 : wr_q + 1'b1;
  assign rd_next = (rd_q == LAST) ? '0 : rd_q + 1'b1;
  assign step    = replay_valid && replay_ready;
  assign load    = peek || step || restore;
  assign addr    = PTR_W'(peek ? peek_at : rd_d);
  assign rd_d    = rewind ? rewind_to : step ? rd_next : store ? wr_next : rd_q;

  // ---- NumFreeBuf ------------------------------------------------------------------------------
  assign outstanding = FULL - free_q;
  assign ack_error   = ack && (ack_count > outstanding);
  assign freed       = !ack ? '0 : ack_error ? outstanding : ack_count;
  assign free_d      = free_q + freed - SEQ_W'(store);

  // ---- is a replay from `asked` possible -------------------------------------------------------
  assign back       = (wr_q >= asked) ? wr_q - asked : wr_q - asked + FULL;
  assign asked_held = (asked <= LAST) && (back <= outstanding);

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      wr_q   <= '0;
      rd_q   <= '0;
      free_q <= FULL;
    end else begin
      if (store) wr_q <= wr_next;
      rd_q   <= rd_d;
      free_q <= free_d;
    end
  end

  always_ff @(posedge clk) begin
    if (store) mem[wr_q[PTR_W-1:0]] <= {check, store_run, store_adf, store_flit};
    if (load)  out_q <= mem[addr];
    if (load)  addr_q <= addr;
  end

  /* verilator lint_off PINCONNECTEMPTY */
  nf_ram_guard #(
    .RAM(RAM_RETRY), .ROWS(DEPTH),
    .WIDTH(WORD_W), .ECC(ECC), .INJECT_DATA(INJECT_DATA)
  ) u_guard (
    .clk, .rst_n,
    .flip (ram_flip),
    .wr_en (store), .wr_row (wr_q[PTR_W-1:0]),
    .wr_data ({store_run, store_adf, store_flit}),
    .wr_check (check), .rd_en (step),
    .rd_row (addr_q), .rd_word (out_q[WORD_W-1:0]),
    .rd_check (out_q[WORD_W +: CHECK_W]), .data (out),
    .bad (replay_bad), .corrected (),
    .fault (ram_fault)
  );
  /* verilator lint_on PINCONNECTEMPTY */

  assign replay_valid = (rd_q != wr_q);
  assign replay_flit  = out[PAYLOAD_W-1:0];
  assign replay_adf   = out[PAYLOAD_W];
  assign replay_run   = out[PAYLOAD_W+1];
  assign rewind_adf   = (rewind_to != wr_q) && (out[PAYLOAD_W] || replay_bad);
  assign wr_ptr       = wr_q;
  assign free         = free_q;

  // ---- checks ----------------------------------------------------------------------------------
  `NF_ASSERT_NEVER(RetryOverrun_A, store && (free_q <= SEQ_W'(1)))
  `NF_ASSERT_NEVER(FreeRange_A, (free_q == '0) || (free_q > FULL))
  `NF_ASSERT_NEVER(StoreInReplay_A, store && (replay_valid || peek || rewind || restore))
  `NF_ASSERT_NEVER(PointerRange_A, (wr_q > LAST) || (rd_q > LAST))
endmodule

`default_nettype wire
