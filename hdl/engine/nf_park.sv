// SPDX-License-Identifier: Apache-2.0
// Operations that wait for their slot: a list for each slot that has a pin (nf_slot_pins), which is
// its number here; all lists are in one pool. A push takes the place that became free last, or a
// new one if none is free again. An empty pool begins at place 0.
//
// `push` appends an operation to the list of `push_slot`; `pop` removes the head of the list of
// `head_slot`, `pop_ahead` the one that was read ahead; at most one of the two in a clock, never a
// push into a full pool. A list whose slot is not ready does not block another. `push_flags` are
// three facts about an operation; `flag0` to `flag2` show those of each slot's head while it waits.
//
// The operations are in block RAM. In each clock one is read, and it is valid in the next clock.
// Normally this is the head of the list of `next_slot`. In the next clock that slot is `head_slot`,
// its head is `head_data`, and `pop` may remove it.
//
// `ask` reads the head of `ask_slot` ahead instead. In the clock after that read `head_known` is 0,
// and the head of `head_slot` cannot be popped. The operation that was read ahead must stay the
// head of its list. It is `known`, as `ahead_*`, from the next clock until `forget`. It is read
// again if a bit was flipped since, but not after it was popped; the input `popped` is set from
// then on until `forget`.

`default_nettype none
`include "nf_assert.svh"

module nf_park
  import nf_ram_pkg::*;
#(
  parameter int SLOTS  = 64,
  parameter int DEPTH  = 128,
  parameter int WIDTH  = 520,
  parameter int DATA_W = 512,  // lowest bits of an operation, in a protected RAM
  parameter int ECC    = 1,
  parameter int INJECT_DATA = 0
) (
  input  wire logic                       clk,         // clock, rising edge
  input  wire logic                       rst_n,       // asynchronous reset, active low
  input  wire ram_flip_t                  ram_flip,  // bit of a protected RAM to flip (RAS_INJECT)
  // Fault that the protected RAM has found in this cycle.
  output ram_fault_t                      ram_fault,
  input  wire logic                       push,        // append an operation
  input  wire logic [$clog2(SLOTS)-1:0]   push_slot,   // list to append to
  input  wire logic [2:0]                 push_flags,  // three facts about it
  input  wire logic [WIDTH-1:0]           push_data,   // the operation
  input  wire logic                       ask,         // read the head of `ask_slot` ahead
  input  wire logic [$clog2(SLOTS)-1:0]   ask_slot,    // that list
  input  wire logic                       forget,      // forget what was read ahead
  input  wire logic                       popped,      // it was popped
  output logic                            known,       // `ahead_data` is valid
  output logic [WIDTH-1:0]                ahead_data,  // head of `ask_slot`
  output logic                            ahead_bad,  // its data cannot be trusted
  input  wire logic [$clog2(SLOTS)-1:0]   next_slot,   // list whose head is read
  input  wire logic [$clog2(SLOTS)-1:0]   head_slot,   // `next_slot` of the clock before
  output logic                            head_known,  // `head_data` is valid
  output logic [WIDTH-1:0]                head_data,   // its head
  output logic                            head_bad,    // its data cannot be trusted
  input  wire logic                       pop,         // remove the head of `head_slot`
  input  wire logic                       pop_ahead,   // remove the head that was read ahead
  output logic [SLOTS-1:0]                waited,      // lists that are not empty
  output logic [SLOTS-1:0]                flag0,       // first fact of each head
  output logic [SLOTS-1:0]                flag1,       // second fact of each head
  output logic [SLOTS-1:0]                flag2,       // third fact of each head
  output logic [$clog2(DEPTH+1)-1:0]      count        // operations held
);
  localparam int SLOT_W  = $clog2(SLOTS);
  localparam int PLACE_W = (DEPTH > 1) ? $clog2(DEPTH) : 1;
  localparam int COUNT_W = $clog2(DEPTH + 1);

  if (DEPTH < 2 || (1 << PLACE_W) != DEPTH) begin : g_bad_depth
    initial $fatal(1, "nf_park: DEPTH must be a power of two, at least 2");
  end

  localparam int CHECK_W = ram_check_w(DATA_W, ECC);

  (* no_rw_check *) logic [CHECK_W+WIDTH-1:0] data [DEPTH];  // see ClashUsed_A
  logic [CHECK_W+WIDTH-1:0] word_q;
  logic [CHECK_W-1:0] check;
  logic [PLACE_W-1:0] next [DEPTH];  // the next of the same list; not for its last
  logic [PLACE_W-1:0] spare [DEPTH];  // free again: places from `count_q` to below `opened_q`
  logic [2:0]         flags [DEPTH];
  logic [PLACE_W-1:0] head [SLOTS];
  logic [PLACE_W-1:0] tail [SLOTS];
  logic [SLOTS-1:0]   waited_q, flag0_q, flag1_q, flag2_q;
  logic [COUNT_W-1:0] count_q, opened_q;  // operations, and places used since the pool was empty
  logic [PLACE_W-1:0] place, reads, place_q, leaving, follower, ahead_place, ahead_place_q;
  logic [SLOT_W-1:0]  pop_slot, ahead_slot_q;
  logic [WIDTH-1:0]   ahead_q;
  logic               ahead_bad_q, known_q, asks, fresh_q;  // read ahead in the clock before
  logic               opens;  // no place is free again
  logic               more;   // another operation follows the one that leaves
  ram_fault_t         fault, ahead_fault, ahead_fault_q;
  logic [2:0]         follows;

  assign opens = count_q == opened_q;
  assign place = opens ? opened_q[PLACE_W-1:0] : spare[count_q[PLACE_W-1:0]];

  assign asks     = ask && !known_q;
  assign pop_slot = pop_ahead ? ahead_slot_q : head_slot;
  assign leaving  = pop_ahead ? ahead_place : place_q;
  assign more     = leaving != tail[pop_slot];
  assign follower = next[leaving];
  assign follows  = flags[follower];
  assign reads    = asks ? head[ask_slot]
                    : (pop && pop_slot == next_slot) ? follower : head[next_slot];

  always_ff @(posedge clk) begin
    if (asks || waited_q[next_slot]) begin
      word_q  <= data[reads];
      place_q <= reads;
    end
  end

  assign head_known = !fresh_q;
  assign head_data[WIDTH-1:DATA_W] = word_q[WIDTH-1:DATA_W];

  /* verilator lint_off PINCONNECTEMPTY */
  nf_ram_guard #(
    .RAM(RAM_PARKED), .ROWS(DEPTH), .WIDTH(DATA_W), .ECC(ECC), .SYNC(1),
    .INJECT_DATA(INJECT_DATA)
  ) u_guard (
    .clk, .rst_n, .flip (ram_flip),
    .wr_en (push), .wr_row (place), .wr_data (push_data[DATA_W-1:0]), .wr_check (check),
    .rd_en (fresh_q || (pop && !pop_ahead)), .rd_row (reads), .rd_word (word_q[DATA_W-1:0]),
    .rd_check (word_q[WIDTH +: CHECK_W]), .data (head_data[DATA_W-1:0]), .bad (head_bad),
    .corrected (), .fault (fault)
  );
  /* verilator lint_on PINCONNECTEMPTY */

  // What is read ahead is used when it is popped: a fault is told then.
  assign ram_fault = !pop ? '0 : pop_ahead ? ahead_fault : fault;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      known_q <= 1'b0;
      fresh_q <= 1'b0;
    end else begin
      known_q <= !forget && (ask || known_q)
                 && !(ram_flip.valid && !popped && !(pop && pop_ahead));
      fresh_q <= asks;
    end
  end

  always_ff @(posedge clk) begin
    if (asks) ahead_slot_q <= ask_slot;
    if (fresh_q) begin
      ahead_q       <= head_data;
      ahead_bad_q   <= head_bad;
      ahead_fault_q <= fault;
      ahead_place_q <= place_q;
    end
  end

  assign known       = known_q;
  assign ahead_data  = fresh_q ? head_data : ahead_q;
  assign ahead_bad   = fresh_q ? head_bad : ahead_bad_q;
  assign ahead_fault = fresh_q ? fault : ahead_fault_q;
  assign ahead_place = fresh_q ? place_q : ahead_place_q;

  always_ff @(posedge clk) begin
    if (push) begin
      data[place]     <= {check, push_data};
      flags[place]    <= push_flags;
      tail[push_slot] <= place;
      if (waited_q[push_slot]) begin
        next[tail[push_slot]] <= place;
      end else begin
        head[push_slot]    <= place;
        flag0_q[push_slot] <= push_flags[0];
        flag1_q[push_slot] <= push_flags[1];
        flag2_q[push_slot] <= push_flags[2];
      end
    end
    if (pop) begin  // after the last one nothing waits, so no value is read
      spare[PLACE_W'(count_q - 1'b1)] <= leaving;
      head[pop_slot]    <= follower;
      flag0_q[pop_slot] <= follows[0];
      flag1_q[pop_slot] <= follows[1];
      flag2_q[pop_slot] <= follows[2];
    end
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      opened_q <= '0;
      waited_q <= '0;
      count_q  <= '0;
    end else if (push) begin
      if (opens) opened_q <= opened_q + 1'b1;
      waited_q[push_slot] <= 1'b1;
      count_q             <= count_q + 1'b1;
    end else if (pop) begin
      count_q <= count_q - 1'b1;
      if (count_q == COUNT_W'(1)) opened_q <= '0;
      if (!more) waited_q[pop_slot] <= 1'b0;
    end
  end

  assign waited = waited_q;
  assign flag0  = flag0_q;
  assign flag1  = flag1_q;
  assign flag2  = flag2_q;
  assign count  = count_q;

  `NF_ASSERT_NEVER(Overflow_A, push && count_q == COUNT_W'(DEPTH))
  `NF_ASSERT_NEVER(PopEmpty_A, pop && !waited_q[pop_slot])
  `NF_ASSERT_NEVER(AskEmpty_A, asks && !waited_q[ask_slot])
  `NF_ASSERT_NEVER(PopUnread_A, pop && !pop_ahead && (fresh_q || place_q != head[head_slot]))
  `NF_ASSERT_NEVER(AskOther_A, ask && known_q && !popped && ahead_slot_q != ask_slot)
  `NF_ASSERT_NEVER(AheadIsOld_A, pop && pop_ahead
                                 && !(known_q && ahead_place == head[ahead_slot_q]))
  `NF_ASSERT_NEVER(OneAction_A, push && pop)
`ifdef NF_CHECKED
  logic clash_q;  // the place that was read last was written in that clock
  always_ff @(posedge clk) begin
    if (asks || waited_q[next_slot]) clash_q <= push && place == reads;
  end
`endif
  `NF_ASSERT_NEVER(ClashUsed_A, (fresh_q || (pop && !pop_ahead)) && clash_q)
endmodule

`default_nettype wire
