// SPDX-License-Identifier: Apache-2.0
// Every access to the record or to the data of a line lies inside the state area of its region,
// and the area inside the memory and outside of another region's: for each descriptor that
// nf_commit_check accepts, each line, each worker, and each set of workers seen (controller §2).
// Bursts do not cross 4 KiB.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_state_area
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
  parameter int CNT_W          = 8,
  parameter int MEM_LINES_LOG2 = 20
) (
  input wire logic               clk,
  input wire region_desc_t       desc,   // is committed now
  input wire region_desc_t       other,  // was committed before, to region 1
  input wire logic [INDEX_W-1:0] index,
  input wire logic [5:0]         worker,
  input wire logic [63:0]        bitmap,
  input wire logic               kept    // a kept sum is moved along
);
  localparam int REGIONS = 2;

  commit_code_e       code, other_code;
  logic [MADDR_W-1:0] state_end, other_end;

  `NF_FORMAL_NO_RESET

  // Both are judged by the rules; the first one also against the second.
  nf_commit_check #(.REGIONS(REGIONS), .CNT_W(CNT_W), .MEM_LINES_LOG2(MEM_LINES_LOG2)) u_other (
    .region(4'd1), .desc(other), .others('0), .others_state_end('0),
    .ctrl_clash(1'b0), .code(other_code), .state_end(other_end)
  );
  nf_commit_check #(.REGIONS(REGIONS), .CNT_W(CNT_W), .MEM_LINES_LOG2(MEM_LINES_LOG2)) dut (
    .region(4'd0), .desc, .others(DESCS_W'(other) << DESC_W),
    .others_state_end({other_end, MADDR_W'(0)}), .ctrl_clash(1'b0), .code, .state_end
  );

  `NF_ASSUME(Accepted_M, code == COMMIT_OK && other_code == COMMIT_OK)
  `NF_ASSUME(LineOfRegion_M, (MADDR_W'(index) >> desc.lines_log2) == '0)
  `NF_ASSUME(WorkersOfRegion_M, 8'(worker) < desc.workers &&
                                (bitmap & ~worker_mask(desc.workers)) == '0)

  // ---- what nf_fill, nf_evict and nf_record_init ask for, and what the FP32 path stores --------
  logic [MADDR_W-1:0] first, last, line, base;
  logic [3:0]         beats;
  logic               records, fp;

  assign base    = MADDR_W'(desc.state_base);
  assign fp      = desc.mode == MODE_FP32;
  assign records = fp || is_low_bit(desc.mode);
  assign beats   = fp ? 4'(kept && desc.keep_sum)
                      : planes_in_use(7'($countones(bitmap)), desc.tern5, 4'(CNT_W));
  assign first   = record_addr(desc, index, 4'(CNT_W));
  assign last    = first + MADDR_W'(beats);
  assign line    = base + (MADDR_W'(worker) << desc.lines_log2) + MADDR_W'(index);

  `NF_ASSERT_NEVER(RecordOutside_A, records && (first < base || last >= state_end))
  `NF_ASSERT_NEVER(DataOutside_A, fp && (line < base || line >= state_end))
  `NF_ASSERT_NEVER(RecordOverData_A,
                   fp && first < base + (MADDR_W'(desc.workers) << desc.lines_log2))
  `NF_ASSERT_NEVER(Crosses4K_A, records && (first >> 6) != (last >> 6))
  `NF_ASSERT_NEVER(OutOfMemory_A, (state_end >> MEM_LINES_LOG2) != '0 &&
                                  state_end != (MADDR_W'(1) << MEM_LINES_LOG2))
  `NF_ASSERT_NEVER(Empty_A, state_end <= base)
  `NF_ASSERT_NEVER(AreasOverlap_A, base < other_end && MADDR_W'(other.state_base) < state_end)
  `NF_ASSERT_NEVER(WindowOverMemory_A, (desc.base >> MEM_LINES_LOG2) == '0)

  `NF_COVER(LowBit_C, desc.mode == MODE_G_TERNARY && beats >= 4'd4 && index != '0)
  `NF_COVER(KeptSum_C, fp && desc.keep_sum && kept && index[0] && base[0])
endmodule

`default_nettype wire
