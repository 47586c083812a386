// SPDX-License-Identifier: Apache-2.0
// The committed region descriptors, and what a region remembers between two commits.
//
// Commit handshake: `commit_valid` is held with stable region and descriptor until `commit_done`
// pulses for one clock with the code. In between, `hold` lets the decoder keep back what the commit
// concerns. Requests of other regions, and of ordinary memory, go on. Once all that came before has
// been answered (`gone`), and every write of the region has reached memory (`settled`), lookups
// stop for a few clocks (`freeze`), so that no further line of the region leaves its slot; when
// the stages hold no victim (`still`), the descriptor is judged and applied. So each transaction
// lies wholly before or wholly after a commit, and the blocks may read `desc` without further care.
//
// CLOSE is the same handshake with `commit_close`: it waits for `reads_gone`, and then sets
// `closed` in place of the descriptor. So no read that found the round open is answered after it.
//
// Moving the control window is the same handshake with `commit_move` and `commit_place`; it waits
// for `gone` alone, and keeps back every request meanwhile (`hold_all`): hosts cannot ask for it.
//
// Trust in device memory: `gen` counts the commits of a region and is written into every record, so
// records of an older epoch never match. When a commit moves or reshapes the state area, is the
// first after reset, or makes `gen` (GEN_W bits) begin again, `init_start` asks for the area's
// bookkeeping lines to be overwritten first: whatever memory held before can never be taken for
// state.

`default_nettype none
`include "nf_assert.svh"
`include "nf_wave.svh"

module nf_regions
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
  parameter int REGIONS        = 8,
  parameter int CNT_W          = 8,
  parameter int MEM_LINES_LOG2 = 20,
  parameter int GEN_W          = 32
) (
  input  wire logic                  clk,    // clock, rising edge
  input  wire logic                  rst_n,  // asynchronous reset, active low

  input  wire logic                  commit_valid,   // commit asked for; held until `commit_done`
  input  wire logic                  commit_close,  // close the region instead
  input  wire logic [3:0]            commit_region,  // region of the commit
  input  wire region_desc_t          commit_desc,    // descriptor to make active
  input  wire logic [31:0]           commit_epoch,   // epoch to set
  input  wire logic                  commit_move,   // move the control window instead
  input  wire logic [LADDR_W-1:0]    commit_place,   // line address asked for the control window
  output logic                       commit_done,    // the commit has ended
  output commit_code_e               commit_code,    // its result, valid with `commit_done`

  output logic                       begins,       // pulse: a commit begins
  output logic                       hold,         // keep back what concerns `commit_region`
  output logic                       hold_new,     // and what concerns the descriptor asked for
  output logic                       hold_all,     // keep back everything
  output logic [MADDR_W-1:0]         hold_end,     // line after its state area
  output logic                       closing,      // a round is being closed
  input  wire logic                  gone,         // all that came before has been answered
  input  wire logic                  reads_gone,   // and has left the device
  input  wire logic                  settled,      // no state of the region is on its way to memory
  output logic                       init_hold,    // the initialiser pauses
  input  wire logic                  init_writes,  // it has writes of the region under way
  output logic                       freeze,       // look nothing up
  input  wire logic                  still,        // no victim is in the stages, all slots swept
  input  wire logic [REGIONS-1:0]    untrusted,    // records unknown after a failed write
  output logic [REGIONS-1:0]         apply,        // pulse: region starts a new round
  output logic [REGIONS-1:0]         init_start,   // pulse with apply: rewrite bookkeeping
  output logic [REGIONS-1:0]         init_cancel,  // pulse with apply: nothing to rewrite any more

  output logic [REGIONS-1:0]         committed,  // regions with an active descriptor
  output logic [DESCS_W-1:0]         desc,       // active descriptors
  output logic [REGIONS*MADDR_W-1:0] state_end,  // line after the state area of each region
  output logic [REGIONS*REC_GEN_W-1:0] gen,      // generations, REC_GEN_W bits a region
  output logic [REGIONS*32-1:0]      epoch,      // epoch of each region, 32 bits a region
  output logic [REGIONS-1:0]         closed,     // regions whose round is closed
  output logic                       ctrl_on,    // the control window exists
  output logic [LADDR_W-1:0]         ctrl_base,  // first line address of the control window

  // What the engine reports.
  input  wire logic                  line_complete,  // strobe: a line has become complete
  input  wire logic                  saturated_set,  // strobe: a count has saturated
  input  wire logic                  illegal_set,    // strobe: an illegal code was seen
  input  wire logic [3:0]            event_region,   // region of these strobes

  output logic [REGIONS*32-1:0]      complete,   // complete lines of each region, 32 bits a region
  output logic [REGIONS-1:0]         done,       // regions whose lines are all complete
  output logic                       done_set,  // pulse
  output logic [REGIONS-1:0]         saturated,  // regions in which a count has saturated
  output logic [REGIONS-1:0]         illegal     // regions in which an illegal code was seen
);
  if (REGIONS < 1 || REGIONS > MAX_REGIONS) begin : g_bad_regions
    initial $fatal(1, "nf_regions: REGIONS must be 1..16");
  end
  if (GEN_W < 1 || GEN_W > REC_GEN_W) begin : g_bad_gen
    initial $fatal(1, "nf_regions: GEN_W must be 1..32");
  end

  commit_state_e      state_q;
  commit_code_e       check_code, place_code, code_q;
  logic               ctrl_clash, ready;
  logic [MADDR_W-1:0] check_state_end;
  logic [REGIONS-1:0] done_now;

  nf_commit_check #(
    .REGIONS(REGIONS), .CNT_W(CNT_W),
    .MEM_LINES_LOG2(MEM_LINES_LOG2)
  ) u_check (
    .region           (commit_region),
    .desc             (commit_desc),
    .others           (desc),
    .others_state_end (state_end),
    .ctrl_clash,
    .code             (check_code),
    .state_end        (check_state_end)
  );

  nf_ctrl_place #(.REGIONS(REGIONS), .MEM_LINES_LOG2(MEM_LINES_LOG2)) u_place (
    .clk, .rst_n,
    .move   ((state_q == COMMIT_APPLY) && commit_move),
    .place  (commit_place),
    .committed,
    .descs  (desc),
    .code   (place_code),
    .region (commit_desc),
    .clash  (ctrl_clash),
    .on     (ctrl_on),
    .base   (ctrl_base)
  );

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      state_q <= COMMIT_IDLE;
    end else begin
      case (state_q)
        COMMIT_IDLE:  if (commit_valid) state_q <= COMMIT_DRAIN;
        COMMIT_DRAIN: begin
          if (hold_new) begin
            if (ready) state_q <= COMMIT_STILL;
          end else if (commit_close ? reads_gone : gone) begin
            state_q <= COMMIT_APPLY;
          end
        end
        COMMIT_STILL: begin
          if (!ready)     state_q <= COMMIT_DRAIN;  // a line of the region was on its way
          else if (still) state_q <= COMMIT_APPLY;
        end
        COMMIT_APPLY: state_q <= COMMIT_DONE;
        default:      state_q <= COMMIT_IDLE;
      endcase
    end
  end

  // The descriptor is in force with the next clock, and would then be judged against itself.
  always_ff @(posedge clk) begin
    if (state_q == COMMIT_APPLY) begin
      if (commit_move) code_q <= place_code;
      else             code_q <= check_code;
    end
  end

  assign begins      = (state_q == COMMIT_IDLE) && commit_valid;
  assign hold        = (state_q != COMMIT_IDLE) && !commit_move;
  assign hold_new    = hold && !commit_close;
  assign hold_all    = (state_q != COMMIT_IDLE) && commit_move;
  assign hold_end    = check_state_end;
  assign closing     = (state_q == COMMIT_DRAIN) && commit_close;
  assign init_hold   = hold_new && gone && settled;
  assign ready       = init_hold && !init_writes;
  assign freeze      = hold_new && (state_q == COMMIT_STILL || state_q == COMMIT_APPLY);
  assign commit_done = (state_q == COMMIT_DONE);
  assign commit_code = code_q;

  // Does the region keep its state area? One that was never committed has no workers; no descriptor
  // that is applied is like it.
  region_desc_t old;
  logic         same_area;

  assign old       = desc_of(desc, commit_region);
  assign same_area = (old.state_base == commit_desc.state_base)
                     && (old.lines_log2 == commit_desc.lines_log2)
                     && (old.workers == commit_desc.workers)
                     && (old.mode == commit_desc.mode)
                     && (old.keep_sum == commit_desc.keep_sum);

  // One register for all descriptors, as it is read: nothing is put together in every clock.
  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      desc <= '0;
    end else begin
      for (int r = 0; r < REGIONS; r++) begin
        if (apply[r]) desc[r*DESC_W +: DESC_W] <= commit_desc;
      end
    end
  end

  for (genvar r = 0; r < REGIONS; r++) begin : g_region
    region_desc_t       desc_q;
    logic               committed_q, closed_q, saturated_q, illegal_q, closes;
    logic [31:0]        epoch_q;
    logic [MADDR_W-1:0] state_end_q;
    logic [GEN_W-1:0]   gen_q;
    logic [INDEX_W:0]   complete_q, all_lines;  // a region may have 2^32 lines and more
    logic               hit, gen_wraps;

    assign hit           = (event_region == 4'(r));
    assign apply[r]      = (state_q == COMMIT_APPLY) && !commit_close && !commit_move
                           && (check_code == COMMIT_OK) && (commit_region == 4'(r));
    assign closes        = (state_q == COMMIT_APPLY) && commit_close && (commit_region == 4'(r))
                           && committed_q && (desc_q.mode != MODE_IDENTITY);
    assign gen_wraps     = (gen_q == '1);
    assign init_start[r] = apply[r] && (!same_area || untrusted[r] || gen_wraps)
                           && (commit_desc.mode != MODE_IDENTITY);
    assign init_cancel[r] = apply[r] && (commit_desc.mode == MODE_IDENTITY);
    assign done_now[r]   = (closes && !done[r])
                           || (line_complete && hit && (complete_q + 1'b1 == all_lines));

    always_ff @(posedge clk or negedge rst_n) begin
      if (!rst_n) begin
        committed_q <= 1'b0;
        closed_q    <= 1'b0;
        saturated_q <= 1'b0;
        illegal_q   <= 1'b0;
        state_end_q <= '0;
        gen_q       <= '0;
        complete_q  <= '0;
      end else if (apply[r]) begin
        committed_q <= 1'b1;
        closed_q    <= 1'b0;
        saturated_q <= 1'b0;
        illegal_q   <= 1'b0;
        state_end_q <= check_state_end;
        gen_q       <= gen_wraps ? GEN_W'(1) : gen_q + 1'b1;  // 0 is the mark of an empty record
        complete_q  <= '0;
      end else begin
        if (closes)               closed_q <= 1'b1;
        if (line_complete && hit) complete_q <= complete_q + 1'b1;
        if (saturated_set && hit) saturated_q <= 1'b1;
        if (illegal_set && hit)   illegal_q <= 1'b1;
      end
    end

    // No reset: it is used for committed regions only.
    always_ff @(posedge clk) begin
      if (apply[r]) epoch_q <= commit_epoch;
    end

    assign desc_q                          = desc[r*DESC_W +: DESC_W];
    assign all_lines                       = (INDEX_W+1)'(1) << desc_q.lines_log2;
    assign committed[r]                    = committed_q;
    assign state_end[r*MADDR_W +: MADDR_W] = state_end_q;
    assign gen[r*REC_GEN_W +: REC_GEN_W] = REC_GEN_W'(gen_q);
    assign epoch[r*32 +: 32]               = epoch_q;
    assign closed[r]                       = closed_q;
    assign complete[r*32 +: 32]            = complete_q[31:0];
    assign done[r]                         = closed_q || (complete_q == all_lines);
    assign saturated[r]                    = saturated_q;
    assign illegal[r]                      = illegal_q;

    // nf_commit_check judges others by their descriptors alone.
    `NF_ASSERT_NEVER(ZeroBefore_A, !committed_q && (desc_q != '0 || state_end_q != '0))
  end

  assign done_set = |done_now;

  `NF_ASSERT_KEEPS(CommitStable_A, commit_valid && !commit_done, commit_valid)
  `NF_ASSERT_NEVER(ApplyOne_A, !$onehot0(apply))

  `NF_WAVE_NAME(state_name, state_q, commit_state_name)
  `NF_WAVE_NAME(code_name, code_q, commit_code_name)
endmodule

`default_nettype wire
