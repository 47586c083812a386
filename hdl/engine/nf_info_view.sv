// SPDX-License-Identifier: Apache-2.0
// INFO of a line: its bookkeeping as a host reads it (selector 1).
//
// Purely combinational. `line`, from bit 0: epoch (32), generation (32), bitmap of the workers seen
// (64), their number m (8), then the flags complete, poisoned, lost, saturated, closed; the rest is
// zero. A line that memory has lost is never complete.

`default_nettype none

module nf_info_view
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
  parameter int REGIONS = 8
) (
  input  wire logic [3:0]                   region,   // region of the line
  input  wire logic [7:0]                   workers,  // its number of workers
  input  wire logic [REGIONS*32-1:0]        epoch,    // epoch of each region, 32 bits a region
  // Generation of each region: number of its commits.
  input  wire logic [REGIONS*REC_GEN_W-1:0] gen,
  input  wire logic [REGIONS-1:0]           closed,   // regions whose round is closed
  input  wire book_t                        book,     // bookkeeping of the line

  output logic [LINE_W-1:0]                 line  // INFO line
);
  typedef struct packed {
    logic        closed;
    logic        saturated;
    logic        lost;
    logic        poisoned;
    logic        complete;
    logic [7:0]  m;
    logic [63:0] bitmap;
    logic [31:0] gen;
    logic [31:0] epoch;
  } info_t;

  logic [31:0] number;
  logic [63:0] everyone;
  info_t       info, whole;

  assign number = 32'(region) % REGIONS;
  // Not in the process: Icarus wakes a process for arguments of functions that it calls, which all
  // instances share. Two devices with different numbers of workers would wake each other for ever.
  assign everyone = worker_mask(workers);

  always_comb begin
    info.closed    = closed[number];
    info.saturated = book.saturated;
    info.lost      = book.lost;
    info.poisoned  = book.poison;
    info.complete  = !book.lost && (book.bitmap == everyone);
    info.m         = 8'($countones(book.bitmap));
    info.bitmap    = book.bitmap;
    info.gen       = gen[number*REC_GEN_W +: REC_GEN_W];
    info.epoch     = epoch[number*32 +: 32];
    whole          = info;  // whole, so that its readers wake once
  end

  assign line = LINE_W'(whole);
endmodule

`default_nettype wire
