// SPDX-License-Identifier: Apache-2.0
// STATUS of a region as lines that hosts read: selector 2 its figures, selectors 3 to 6 the lines
// contributed by workers 0..15, 16..31, 32..47 and 48..63.
//
// Each figure is a 32-bit word. Selector 2, from bit 0: epoch, complete lines, done, fallback,
// refused accesses, late contributions, poisoned lines; the rest is zero. All are of one clock;
// the words of selectors 3 to 6 are read one by one.
//
// Handshake: `op_*` valid/ready, one at a time; `drs_*` valid/ready. `count_*`: nf_worker_lines.

`default_nettype none
`include "nf_assert.svh"

module nf_status_view
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
  parameter int REGIONS = 8
) (
  input  wire logic                  clk,    // clock, rising edge
  input  wire logic                  rst_n,  // asynchronous reset, active low

  input  wire logic [REGIONS*32-1:0] epoch,     // epoch of each region, 32 bits a region
  input  wire logic [REGIONS*32-1:0] complete,  // complete lines of each region, 32 bits a region
  input  wire logic [REGIONS-1:0]    done,      // regions whose lines are all complete
  input  wire logic [REGIONS-1:0]    fallback,  // regions in FALLBACK
  input  wire logic [REGIONS*32-1:0] refused,   // refused accesses of each region
  input  wire logic [REGIONS*32-1:0] late,      // late contributions of each region
  input  wire logic [REGIONS*32-1:0] poisoned,  // poisoned lines of each region

  input  wire logic                  op_valid,     // operation valid
  output logic                       op_ready,     // operation taken
  input  wire logic [2:0]            op_selector,  // line of the view, 2 to 6
  input  wire resp_meta_t            op_meta,      // requester and region

  output logic                       count_valid,   // read of a worker's lines
  input  wire logic                  count_ready,   // read taken
  output logic [3:0]                 count_region,  // its region
  output logic [5:0]                 count_worker,  // its worker
  input  wire logic [31:0]           count,         // lines of that worker, one cycle later

  output logic                       drs_valid,  // answer with data valid
  input  wire logic                  drs_ready,  // answer with data taken
  output answer_t                    drs         // answer with data
);
  localparam int WORDS = LINE_W / 32;

  logic              busy_q, coming_q;
  logic [4:0]        asked_q;  // words of the line that were asked for
  logic [1:0]        row_q;
  resp_meta_t        meta_q;
  logic [LINE_W-1:0] line_q;
  logic [31:0]       number;
  logic              take;

  assign op_ready     = !busy_q;
  assign take         = op_valid && op_ready;
  assign number       = 32'(op_meta.region) % REGIONS;
  assign count_valid  = busy_q && (asked_q != 5'(WORDS));
  assign count_region = meta_q.region;
  assign count_worker = {row_q, asked_q[3:0]};
  assign drs_valid    = busy_q && !count_valid && !coming_q;
  assign drs          = make_answer(meta_q, 1'b0, line_q);

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      busy_q   <= 1'b0;
      coming_q <= 1'b0;
      asked_q  <= '0;
    end else begin
      coming_q <= count_valid && count_ready;
      if (take) begin
        busy_q  <= 1'b1;
        asked_q <= (op_selector == 3'd2) ? 5'(WORDS) : 5'd0;
      end else if (drs_valid && drs_ready) begin
        busy_q  <= 1'b0;
      end else if (count_valid && count_ready) begin
        asked_q <= asked_q + 5'd1;
      end
    end
  end

  always_ff @(posedge clk) begin
    if (take) begin
      meta_q <= op_meta;
      row_q  <= 2'(op_selector - 3'd3);
      line_q <= LINE_W'({poisoned[number*32 +: 32], late[number*32 +: 32],
                         refused[number*32 +: 32], 31'd0, fallback[number], 31'd0, done[number],
                         complete[number*32 +: 32], epoch[number*32 +: 32]});
    end else if (coming_q) begin
      line_q <= {count, line_q[LINE_W-1:32]};
    end
  end

  `NF_ASSERT_KEEPS(AnswerStable_A, drs_valid && !drs_ready, {drs_valid, drs})
endmodule

`default_nettype wire
