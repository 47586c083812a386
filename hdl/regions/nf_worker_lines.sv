// SPDX-License-Identifier: Apache-2.0
// Lines contributed by each worker of each region since the region's last commit.
//
// `add` is a strobe: one line more of a worker. `clear` forgets a region; nothing is in flight
// then. One RAM with a synchronous read: counting takes its port, a reader waits. `read_valid` and
// `read_ready`: `read_count` follows one clock later.

`default_nettype none
`include "nf_assert.svh"

module nf_worker_lines #(
  parameter int REGIONS = 8
) (
  input  wire logic               clk,    // clock, rising edge
  input  wire logic               rst_n,  // asynchronous reset, active low

  input  wire logic [REGIONS-1:0] clear,       // regions to forget (commit)
  input  wire logic               add,         // strobe: one line more
  input  wire logic [3:0]         add_region,  // its region
  input  wire logic [5:0]         add_worker,  // its worker

  input  wire logic               read_valid,   // read valid
  output logic                    read_ready,   // read taken
  input  wire logic [3:0]         read_region,  // region that is read
  input  wire logic [5:0]         read_worker,  // worker that is read
  output logic [31:0]             read_count    // its lines, one cycle after the read was taken
);
  localparam int WORDS = REGIONS * 64;

  logic [31:0]      ram [WORDS];
  logic [31:0]      ram_q, last_q, more;
  logic [WORDS-1:0] live_q;  // a word that is not live counts as 0, whatever the RAM holds
  logic [9:0]       place, place_q, last_place_q;
  logic             adds_q, last_valid_q;

  assign read_ready = !add;
  assign place      = add ? {add_region, add_worker} : {read_region, read_worker};

  // A word that is written in the clock of its read is forwarded past the RAM.
  assign read_count = (last_valid_q && last_place_q == place_q) ? last_q
                      : live_q[32'(place_q) % WORDS] ? ram_q : '0;
  assign more       = read_count + 32'd1;

  always_ff @(posedge clk) begin
    if (add || read_valid) ram_q <= ram[32'(place) % WORDS];
    if (adds_q) ram[32'(place_q) % WORDS] <= more;
    if (add || read_valid) place_q <= place;
    last_place_q <= place_q;
    last_q       <= more;
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      adds_q       <= 1'b0;
      last_valid_q <= 1'b0;
      live_q       <= '0;
    end else begin
      adds_q       <= add;
      last_valid_q <= adds_q;
      if (adds_q) live_q[32'(place_q) % WORDS] <= 1'b1;
      for (int r = 0; r < REGIONS; r++) begin
        if (clear[r]) live_q[r*64 +: 64] <= '0;
      end
    end
  end

  `NF_ASSERT_NEVER(CountedInCommit_A, (add && clear[32'(add_region) % REGIONS])
                                      || (adds_q && clear[32'(place_q[9:6]) % REGIONS]))
endmodule

`default_nettype wire
