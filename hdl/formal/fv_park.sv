// SPDX-License-Identifier: Apache-2.0
// nf_park: an operation that waits for its slot is popped once, unchanged, after those of its slot
// that came before it, whatever is pushed and popped for other slots, and whether or not it was
// read ahead. One operation, which `mark` chooses, is followed; the lengths of the lists are
// counted.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_park
  import nf_ram_pkg::*;
#(
  parameter int SLOTS = 2,
  parameter int DEPTH = 4,
  parameter int WIDTH = 3
) (
  input wire logic                     clk,
  input wire logic                     push,
  input wire logic [$clog2(SLOTS)-1:0] push_slot,
  input wire logic [2:0]               push_flags,
  input wire logic [WIDTH-1:0]         push_data,
  input wire logic                     pop,
  input wire logic                     pop_ahead,
  input wire logic [$clog2(SLOTS)-1:0] next_slot,
  input wire logic                     ask,
  input wire logic [$clog2(SLOTS)-1:0] ask_slot,
  input wire logic                     forget,
  input wire logic                     flips,
  input wire logic                     mark
);
  localparam int COUNT_W = $clog2(DEPTH + 1);

  ram_flip_t          ram_flip;
  ram_fault_t         ram_fault;
  logic [WIDTH-1:0]   head_data, ahead_data, pop_data;
  logic               head_known, head_bad, ahead_bad, known;
  logic [$clog2(SLOTS)-1:0] pop_slot, head_slot, asked_slot_q;
  logic               asked_q, popped, read_q;
  logic [SLOTS-1:0]   waited, flag0, flag1, flag2;
  logic [COUNT_W-1:0] count;

  `NF_FORMAL_RESET

  always_comb begin
    ram_flip       = '0;
    ram_flip.valid = flips;  // of another RAM
  end

  nf_park #(.SLOTS(SLOTS), .DEPTH(DEPTH), .WIDTH(WIDTH), .DATA_W(WIDTH - 1), .ECC(0)) dut (.*);

  `NF_ASSUME(OneAction_M, !(push && pop))
  `NF_ASSUME(RoomIsThere_M, !push || 32'(count) < DEPTH)
  `NF_ASSUME(PopsWhatWaits_M, !pop || waited[pop_slot])

  // The operation asked for stays the head until it is popped: no other pop of its slot meanwhile.
  // After that it is asked for until it is forgotten.
  assign pop_slot = pop_ahead ? asked_slot_q : head_slot;
  assign pop_data = pop_ahead ? ahead_data : head_data;

  `NF_ASSUME(AsksForWhatWaits_M, !ask || popped || waited[ask_slot])
  `NF_ASSUME(AsksOn_M, !asked_q || (ask && ask_slot == asked_slot_q))
  `NF_ASSUME(Forgets_M, !forget || popped)
  `NF_ASSUME(PopsAhead_M, !(pop && pop_ahead) || (asked_q && known && !popped))
  `NF_ASSUME(PopsOther_M, !(pop && !pop_ahead) ||
                          (head_known && read_q && !(ask && head_slot == ask_slot)))

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      asked_q      <= 1'b0;
      popped       <= 1'b0;
      asked_slot_q <= '0;
      head_slot    <= '0;
      read_q       <= 1'b0;
    end else begin
      asked_q      <= ask && !forget;
      popped       <= !forget && (popped || (pop && pop_ahead));
      asked_slot_q <= ask_slot;
      head_slot    <= next_slot;
      read_q       <= waited[next_slot];
    end
  end

  // ---- reference -------------------------------------------------------------------------------
  logic [COUNT_W-1:0]       length_q [SLOTS];
  logic [COUNT_W-1:0]       total_q, ahead_q;
  logic                     followed_q, was_full_q;
  logic [$clog2(SLOTS)-1:0] slot_q;
  logic [WIDTH-1:0]         word_q;
  logic [2:0]               flags_q;
  logic [SLOTS-1:0]         some;

  for (genvar s = 0; s < SLOTS; s++) begin : g_slot
    assign some[s] = (length_q[s] != 0);
    always_ff @(posedge clk or negedge rst_n) begin
      if (!rst_n) length_q[s] <= '0;
      else length_q[s] <= length_q[s] + COUNT_W'(push && 32'(push_slot) == s)
                                      - COUNT_W'(pop && 32'(pop_slot) == s);
    end
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      total_q    <= '0;
      ahead_q    <= '0;
      followed_q <= 1'b0;
      was_full_q <= 1'b0;
      slot_q     <= '0;
      word_q     <= '0;
      flags_q    <= '0;
    end else begin
      total_q    <= total_q + COUNT_W'(push) - COUNT_W'(pop);
      was_full_q <= was_full_q || 32'(total_q) == DEPTH;
      if (!followed_q) begin
        followed_q <= push && mark;
        ahead_q    <= length_q[push_slot];
        slot_q     <= push_slot;
        word_q     <= push_data;
        flags_q    <= push_flags;
      end else if (pop && pop_slot == slot_q) begin
        followed_q <= (ahead_q != 0);
        ahead_q    <= ahead_q - 1;
      end
    end
  end

  `NF_ASSERT(Count_A, count == total_q && 32'(total_q) <= DEPTH)
  `NF_ASSERT(Waited_A, waited == some)
  `NF_ASSERT_NEVER(Forgotten_A, followed_q && !waited[slot_q])
  `NF_ASSERT_NEVER(Order_A, followed_q && ahead_q == 0 && pop && pop_slot == slot_q &&
                            pop_data != word_q)
  `NF_ASSERT_NEVER(Flags_A, followed_q && ahead_q == 0 &&
                            {flag2[slot_q], flag1[slot_q], flag0[slot_q]} != flags_q)
  `NF_ASSERT_NEVER(Bad_A, (head_known && head_bad) || (known && ahead_bad) || ram_fault.bad)

  `NF_COVER(FullThenEmpty_C, was_full_q && total_q == 0)
  `NF_COVER(Ahead_C, followed_q && ahead_q == 0 && pop && pop_ahead && pop_slot == slot_q)
  `NF_COVER(BehindTwo_C, followed_q && ahead_q == 2 && 32'(total_q) == DEPTH)
endmodule

`default_nettype wire
