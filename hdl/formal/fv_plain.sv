// SPDX-License-Identifier: Apache-2.0
// nf_plain: each operation that is accepted goes to memory once and is answered once, in order,
// with its own tag; an error comes back as all ones with Poison. One write and one read are
// followed. Assumed: memory answers what was asked for, in order, and admission keeps the places
// (TRACK).

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_plain
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
  parameter int TRACK = 3
) (
  input wire logic       clk,
  input wire logic       op_valid,
  input wire plain_op_t  op,
  input wire logic       wr_ready,
  input wire logic       b_valid,
  input wire logic       ar_ready,
  input wire logic       r_valid,
  input wire read_beat_t r_beat,
  input wire logic       drs_ready,
  input wire logic       mark
);
  logic               op_ready, wr_valid, wr_poison, ar_valid, r_ready, drs_valid;
  logic [LADDR_W-1:0] wr_addr, ar_addr;
  logic [LINE_W-1:0]  wr_data;
  logic [BE_W-1:0]    wr_strb;
  resp_meta_t         ndr_meta;
  answer_t            drs;

  `NF_FORMAL_RESET

  nf_plain #(.TRACK(TRACK)) dut (.*);

  // ---- reference -------------------------------------------------------------------------------
  logic [31:0] writes_q, reads_q;                      // asked of memory, and not answered
  logic [31:0] before_write_q, before_read_q;          // of these, before the one that is followed
  logic        write_q, read_q, wrote, asked, ended;
  resp_meta_t  write_meta_q, read_meta_q;

  assign wrote = wr_valid && wr_ready;
  assign asked = ar_valid && ar_ready;
  assign ended = r_valid && r_ready;

  `NF_ASSUME(Places_M, (!(op_valid && op.write) || writes_q < TRACK) &&
                       (!(op_valid && !op.write) || reads_q < TRACK))
  `NF_ASSUME(AnswersWhatWasAsked_M, (!b_valid || writes_q != 0) && (!r_valid || reads_q != 0))

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      writes_q       <= '0;
      reads_q        <= '0;
      before_write_q <= '0;
      before_read_q  <= '0;
      write_q        <= 1'b0;
      read_q         <= 1'b0;
      write_meta_q   <= '0;
      read_meta_q    <= '0;
    end else begin
      writes_q <= writes_q + 32'(wrote) - 32'(b_valid);
      reads_q  <= reads_q + 32'(asked) - 32'(ended);
      if (!write_q) begin
        write_q        <= wrote && mark;
        before_write_q <= writes_q - 32'(b_valid);
        write_meta_q   <= op.meta;
      end else if (b_valid) begin
        write_q        <= (before_write_q != 0);
        before_write_q <= before_write_q - 1;
      end
      if (!read_q) begin
        read_q        <= asked && mark;
        before_read_q <= reads_q - 32'(ended);
        read_meta_q   <= op.meta;
      end else if (ended) begin
        read_q        <= (before_read_q != 0);
        before_read_q <= before_read_q - 1;
      end
    end
  end

  `NF_ASSERT(Once_A, (op_valid && op_ready) == (wrote || asked) && !(wr_valid && ar_valid))
  `NF_ASSERT_NEVER(AnotherWrite_A, wr_valid && {wr_addr, wr_data, wr_strb, wr_poison} !=
                                               {op.addr, op.data, op.be, op.poison})
  `NF_ASSERT_NEVER(AnotherRead_A, ar_valid && ar_addr != op.addr)
  `NF_ASSERT_NEVER(WriteLost_A, write_q && before_write_q >= writes_q)
  `NF_ASSERT_NEVER(ReadLost_A, read_q && before_read_q >= reads_q)
  `NF_ASSERT_NEVER(WriteAnswer_A, b_valid && write_q && before_write_q == 0 &&
                                  ndr_meta != write_meta_q)
  `NF_ASSERT_NEVER(ReadAnswer_A, drs_valid && read_q && before_read_q == 0 &&
                                 drs.meta != read_meta_q)
  `NF_ASSERT(Answers_A, drs_valid == r_valid && r_ready == drs_ready)
  `NF_ASSERT_NEVER(Data_A, drs_valid && (drs.data != (r_beat.err ? '1 : r_beat.data) ||
                                         drs.poison != (r_beat.err || r_beat.poison)))

  // ---- what induction needs to know of the inside -----------------------------------------------
  localparam int PTR_W = (TRACK > 1) ? $clog2(TRACK) : 1;
  logic [31:0] write_place, read_place;
  assign write_place = (32'(dut.u_writes.rd_ptr_q) + before_write_q) % TRACK;
  assign read_place  = (32'(dut.u_reads.rd_ptr_q) + before_read_q) % TRACK;

  `NF_ASSERT(Writes_A, 32'(dut.u_writes.count_q) == writes_q && writes_q <= TRACK &&
                       32'(dut.u_writes.rd_ptr_q) < TRACK && 32'(dut.u_writes.wr_ptr_q) ==
                       (32'(dut.u_writes.rd_ptr_q) + writes_q) % TRACK)
  `NF_ASSERT(Reads_A, 32'(dut.u_reads.count_q) == reads_q && reads_q <= TRACK &&
                      32'(dut.u_reads.rd_ptr_q) < TRACK && 32'(dut.u_reads.wr_ptr_q) ==
                      (32'(dut.u_reads.rd_ptr_q) + reads_q) % TRACK)
  `NF_ASSERT_NEVER(WriteKept_A, write_q &&
                   dut.u_writes.mem[PTR_W'(write_place)] != write_meta_q)
  `NF_ASSERT_NEVER(ReadKept_A, read_q && dut.u_reads.mem[PTR_W'(read_place)] != read_meta_q)

  `NF_COVER(BothFollowed_C, write_q && read_q && before_read_q == 1 && b_valid && r_valid)
endmodule

`default_nettype wire
