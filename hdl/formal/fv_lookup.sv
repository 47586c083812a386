// SPDX-License-Identifier: Apache-2.0
// nf_lookup: every operation that the engine accepts is executed once, in the order of its line,
// and answered once, whether it hits, misses, waits for its slot (nf_park), is deferred, leaves
// with a fill or is a store that goes to memory early; none is forgotten. Answered: nf_line_rules
// answers what is executed (fv_line_answer), a store when memory has answered it.
//
// One operation, which `mark` chooses, is followed by its tag; all are counted. Assumed: never more
// than OPS without an answer, memory answers stores in order, fills and gathers in any order, each
// once, and a fill stays until it was taken. No commit comes meanwhile, and no operation before the
// slots are cleared after the reset.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_lookup
  import nf_pkg::*;
  import nf_core_pkg::*;
  import nf_fp32_pkg::*;
  import nf_ram_pkg::*;
#(
  parameter int FP      = 1,  // with FP32 operations
  parameter int SLOTS   = 2,
  parameter int WAYS    = 2,
  parameter int PINS    = 2,
  parameter int OPS     = 4,
  parameter int INDEX_B = 2   // bits of the line index that are not zero
) (
  input wire logic               clk,
  input wire logic               op_valid,
  input wire op_kind_e           kind,
  input wire logic [INDEX_B-1:0] index,
  input wire logic               whole,    // it enables all bytes
  input wire logic               poison,
  input wire logic               mark,
  input wire logic               maybe_written,
  input wire logic [3:0]         room,     // stores, gathers, fills, evictions
  input wire logic               fill_offered,
  input wire logic               fill_next,
  input wire logic [$clog2(PINS)-1:0] fill_next_pin,
  input wire logic               fill_lost,
  input wire logic               fill_kept,
  input wire logic               straight,  // the fill goes to S2 at once
  input wire logic               stored_valid,
  input wire logic               stored_err,
  input wire logic               end_valid,
  input wire logic [$clog2(PINS)-1:0] end_pin,
  input wire logic               end_keep,
  input wire logic               damaged,  // what S2 has read is lost
  input wire logic               freeze    // a commit: nothing is looked up
);
  localparam int COUNT_W = $clog2(OPS + 1);
  localparam int SLOT_W  = $clog2(SLOTS);
  localparam int PIN_W   = $clog2(PINS);

  logic                     op_ready, issue_valid, fetch, slot_hit, slot_miss;
  logic [PIN_W-1:0]         fetch_pin;
  logic [SLOT_W-1:0]        damage_slot;
  logic                     end_ready, fill_valid, fill_in_pipe, fill_take, fill_known;
  logic                     fill_due;   // fill_next of the clock before
  logic [PIN_W-1:0]         fill_pin;   // fill_next_pin then
  logic                     damage, untrusted;
  logic                     invalidate, closed, store_room, gather_room, fill_room, evict_room;
  logic [2*RAM_FAULT_W-1:0] ram_faults;
  ram_flip_t                ram_flip;
  logic                     look, frozen;
  logic                     go_deferred;
  line_id_t                 look_line, new_line, deferred_line, lk_line;
  engine_op_t               op, looked_up;
  engine_stage_t            issue, filled;
  fp_stored_t               stored;
  gather_end_t              gather_end;

  `NF_FORMAL_RESET

  assign ram_flip    = '0;
  assign untrusted   = 1'b0;
  assign invalidate  = 1'b0;
  assign closed      = 1'b0;
  assign {store_room, gather_room, fill_room, evict_room} = room;

  nf_lookup #(
    .REGIONS(1), .SLOTS(SLOTS), .WAYS(WAYS), .PINS(PINS), .MEM_LINES_LOG2(INDEX_B + 1), .OPS(OPS),
    .ECC(0), .PATIENCE_LOG2(1)
  ) dut (.*);

  // S2 may find the state lost of an operation that hit and was issued two clocks before.
  logic              read1_q, read2_q;
  logic [SLOT_W-1:0] read1_slot_q, read2_slot_q;
  assign damage      = damaged && read2_q;
  assign damage_slot = read2_slot_q;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) {read1_q, read2_q} <= '0;
    else        {read1_q, read2_q} <= {issue_valid && issue.act == ACT_OP, read1_q};
  end

  always_ff @(posedge clk) begin
    read1_slot_q <= issue.slot[SLOT_W-1:0];
    read2_slot_q <= read1_slot_q;
  end

  // ---- the operation that comes ----------------------------------------------------------------
  logic marks, accepted, marked_q, reads_fp, is_fp;

  assign reads_fp = (kind == OP_FP_SUM) || (kind == OP_FP_RAW);
  assign is_fp    = reads_fp || (kind == OP_FP_STORE);
  assign marks    = mark && !marked_q;
  assign accepted = op_valid && op_ready;

  always_comb begin
    op        = '0;
    op.kind   = kind;
    op.meta   = make_meta(TAG_W'(marks), '0, 1'b1, 4'd0, 1'b0);
    op.index  = INDEX_W'(index);
    op.poison = poison;
    op.be     = (whole && !reads_fp) ? '1 : '0;  // as nf_decode makes them
  end

  // ---- what is issued --------------------------------------------------------------------------
  logic               acts, early, stores, gathers, executes, answers, is_mark, is_store;
  logic [INDEX_B-1:0] line;

  assign acts     = issue_valid && (issue.act == ACT_OP || issue.acts);
  assign early    = issue_valid && issue.act == ACT_MISS && issue.early;
  assign is_store = (issue.op.kind == OP_FP_STORE);
  assign stores   = (acts && is_store && !issue.op.poison) || early;
  assign gathers  = acts && (issue.op.kind == OP_FP_RAW ||
                             (issue.op.kind == OP_FP_SUM && !issue.kept));
  assign executes = acts || early;
  assign answers  = (acts && !stores) || (issue_valid && (issue.act == ACT_STORED ||
                     (issue.act == ACT_FILL && issue.early)));
  assign is_mark   = issue.op.meta.tag[0];
  assign line     = issue.op.index[INDEX_B-1:0];

  // ---- memory: stores in order, one gather or fill of a pin and another in any -----------------
  logic [OPS-1:0]     tag_q;                    // of the stores under way, oldest lowest
  logic [PIN_W-1:0]   pin_q [OPS];
  logic [COUNT_W-1:0] stores_q, after;
  logic [COUNT_W-1:0] gathers_q [PINS];
  logic [PINS-1:0]    gathering, fetching_q, sum_q;
  logic               pipe1_q, pipe2_q, offered_q;
  logic               fills, ends, answered_store;

  assign answered_store = stored_valid;          // never held up
  assign after          = stores_q - COUNT_W'(answered_store);
  assign stored         = make_fp_stored(make_meta(TAG_W'(tag_q[0]), '0, 1'b1, 4'd0, 1'b0), 6'd0,
                                         8'(pin_q[0]));
  assign gather_end     = {8'(end_pin), end_keep, LINE_W'(0)};
  assign ends           = end_valid && end_ready;
  assign fill_valid     = fill_offered;
  assign fill_in_pipe   = pipe1_q || pipe2_q;
  assign fill_take      = pipe2_q;
  assign fills          = issue_valid && issue.act == ACT_FILL;

  logic [1:0] room_q;  // for fills and evictions: it is taken by those alone
  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) room_q <= '0;
    else        room_q <= room[1:0] & ~{fetch, issue_valid && issue.act == ACT_MISS && issue.dirty};
  end

  `NF_ASSUME(LooksWhatIsCleared_M, !op_valid || !dut.u_table.clearing_q)
  `NF_ASSUME(RoomStays_M, (room_q & ~room[1:0]) == '0)
  `NF_ASSUME(Kinds_M, FP != 0 || !is_fp)
  `NF_ASSUME(Kept_M, !fill_kept || sum_q[fill_pin])  // nf_fill brings a sum to those who read it
  `NF_ASSUME(Stored_M, !stored_valid || stores_q != '0)
  `NF_ASSUME(Ends_M, !end_valid || gathers_q[end_pin] != '0)
  // Whose turn it is is told before, unless a fill comes as soon as it is asked for.
  `NF_ASSUME(Fetched_M, !fill_offered || fill_in_pipe || !fill_due || fetching_q[fill_pin])
  `NF_ASSUME(FillStays_M, !offered_q || fill_offered)
  `NF_ASSUME(NextFetched_M, !fill_next || fetching_q[fill_next_pin]
                            || (fill_in_pipe && !fill_take))
  `NF_ASSUME(NextStays_M, !fill_due || fill_take || (fill_next && fill_next_pin == fill_pin))
  `NF_ASSUME_KEEPS(EndStays_M, end_valid && !end_ready, {end_valid, end_pin, end_keep})

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      stores_q       <= '0;
      tag_q          <= '0;
      for (int i = 0; i < OPS; i++) pin_q[i] <= '0;
      for (int s = 0; s < PINS; s++) gathers_q[s] <= '0;
      fetching_q     <= '0;
      sum_q          <= '0;
      pipe1_q        <= 1'b0;
      pipe2_q        <= 1'b0;
      offered_q      <= 1'b0;
      fill_due       <= 1'b0;
      fill_pin      <= '0;
    end else begin
      stores_q <= after + COUNT_W'(stores);
      for (int i = 0; i < OPS; i++) begin
        if (stores && 32'(after) == i) begin
          tag_q[i]  <= is_mark;
          pin_q[i] <= issue.pin[PIN_W-1:0];
        end else if (answered_store) begin
          tag_q[i]  <= (i + 1 < OPS) ? tag_q[(i+1)%OPS] : 1'b0;
          pin_q[i] <= (i + 1 < OPS) ? pin_q[(i+1)%OPS] : '0;
        end
      end
      for (int s = 0; s < PINS; s++)
        gathers_q[s] <= gathers_q[s] + COUNT_W'(gathers && 32'(issue.pin) == s)
                                     - COUNT_W'(ends && 32'(end_pin) == s);
      for (int s = 0; s < PINS; s++)
        if (fetch && 32'(fetch_pin) == s)
          sum_q[s] <= FP != 0 && looked_up.kind != OP_FP_STORE;
      for (int s = 0; s < PINS; s++)
        fetching_q[s] <= (fetching_q[s] && !(fills && 32'(fill_pin) == s)) ||
                         (fetch && 32'(fetch_pin) == s);
      pipe1_q        <= fills && !straight;
      pipe2_q        <= pipe1_q || (fills && straight);
      offered_q      <= fill_offered && !fills && !fill_in_pipe;
      fill_due       <= fill_next;
      fill_pin      <= fill_next_pin;
    end
  end

  for (genvar s = 0; s < PINS; s++) begin : g_gathering
    assign gathering[s] = gathers_q[s] != '0;
  end

  // ---- reference -------------------------------------------------------------------------------
  logic [COUNT_W-1:0] open_q;                    // accepted, not answered
  logic [COUNT_W-1:0] waiting_q [1 << INDEX_B];  // accepted, not executed, of each line
  logic [COUNT_W-1:0] ahead_q, ahead;            // of these, before the one that is followed
  logic               executed_q, answered_q, mine, follows;
  logic [INDEX_B-1:0] line_q;

  `NF_ASSUME(Places_M, !op_valid || 32'(open_q) < OPS)

  // What comes may be executed, and answered, in the same clock.
  assign mine    = marked_q || (accepted && mark);
  assign ahead   = marked_q ? ahead_q : waiting_q[index];
  assign follows = mine && executes && line == (marked_q ? line_q : index);

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      open_q     <= '0;
      marked_q   <= 1'b0;
      executed_q <= 1'b0;
      answered_q <= 1'b0;
      ahead_q    <= '0;
      line_q     <= '0;
      for (int i = 0; i < (1 << INDEX_B); i++) waiting_q[i] <= '0;
    end else begin
      open_q <= open_q + COUNT_W'(accepted) - COUNT_W'(answers);
      for (int i = 0; i < (1 << INDEX_B); i++)
        waiting_q[i] <= waiting_q[i] + COUNT_W'(accepted && 32'(index) == i)
                                     - COUNT_W'(executes && 32'(line) == i);
      marked_q   <= mine;
      executed_q <= executed_q || (executes && is_mark);
      answered_q <= answered_q || (answers && is_mark);
      ahead_q    <= ahead - COUNT_W'(follows && !is_mark && !executed_q);
      if (!marked_q) line_q <= index;
    end
  end

  logic [COUNT_W-1:0] twice;  // early stores: they wait for their slot and for memory
  assign twice = COUNT_W'($countones(dut.u_early.early_q & ~dut.u_early.landed_q));

  `NF_ASSERT(Filled_A, !fills || (filled.op == issue.op && filled.slot == issue.slot &&
                                  filled.pin == issue.pin && filled.acts == issue.acts &&
                                  filled.early == issue.early))
  `NF_ASSERT(OneMeaning_A, $onehot0({acts, early, issue_valid && (issue.act == ACT_STORED ||
                                     (issue.act == ACT_FILL && issue.early))}))
  `NF_ASSERT_NEVER(ExecutedTwice_A, executes && is_mark && (!mine || executed_q))
  `NF_ASSERT_NEVER(AnsweredTwice_A, answers && is_mark && (!mine || answered_q))
  `NF_ASSERT_NEVER(AnswerWithoutExecution_A, answers && is_mark && !executed_q && !executes)
  `NF_ASSERT_NEVER(Order_A, follows && is_mark && ahead != '0)
  `NF_ASSERT_NEVER(Overtaken_A, follows && !is_mark && !executed_q && ahead == '0)
  `NF_ASSERT(NoneLost_A, open_q == dut.parked_count + dut.deferred_count
                                + COUNT_W'(dut.lk_valid_q) + stores_q - twice)
  `NF_ASSERT_NEVER(Forgotten_A, marked_q && !answered_q && open_q == '0)

  // With room, no commit, and nothing that memory still owes, what waits goes on within some
  // clocks: heads and victims are chosen a clock ahead, and the end of a store is seen a clock
  // later.
  localparam int SOON = 4;
  logic [2:0] still_q;
  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) still_q <= '0;
    else if (!issue_valid && !freeze && room == '1 && stores_q == '0 && gathering == '0
             && fetching_q == '0
             && (dut.parked_count != '0 || dut.deferred_count != '0 || dut.lk_valid_q))
      still_q <= still_q + 3'd1;
    else still_q <= '0;
  end
  `NF_ASSERT_NEVER(StandsStill_A, still_q == 3'(SOON))

  // The eviction buffer gets the state that the victim had in the clock before.
  logic       changes_q;
  logic [7:0] changed_q;
  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) changes_q <= 1'b0;
    else changes_q <= acts && issue.op.kind == OP_CONTRIBUTE || issue_valid && (
                      issue.act == ACT_FILL || issue.act == ACT_KEEP || issue.act == ACT_STORED);
  end
  always_ff @(posedge clk) changed_q <= issue.slot;
  `NF_ASSERT_NEVER(VictimChanges_A, issue_valid && issue.act == ACT_MISS && issue.dirty
                                    && changes_q && changed_q == issue.slot)

  `NF_COVER(Parked_C, answers && is_mark && marked_q && ahead_q == '0 && issue.act == ACT_FILL)
  `NF_COVER(BehindOne_C, marked_q && !executed_q && ahead_q == COUNT_W'(1) &&
                         dut.parked_count == COUNT_W'(2))
  `NF_COVER(Deferred_C, executes && is_mark && marked_q && dut.lk_again_q && !dut.do_head)
  `NF_COVER(Evicts_C, executes && is_mark && issue.act == ACT_MISS && issue.dirty)
  if (FP != 0) begin : g_fp
    `NF_COVER(EarlyLands_C, answers && is_mark && issue.act == ACT_FILL && issue.early)
    `NF_COVER(EarlyIsLate_C, answers && is_mark && issue.act == ACT_STORED && answered_q == 1'b0 &&
                             open_q == COUNT_W'(2))
    `NF_COVER(StoreAndGather_C, gathers_q[0] != '0 && dut.parked_count != '0 && marked_q)
  end
endmodule

`default_nettype wire
