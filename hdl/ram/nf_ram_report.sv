// SPDX-License-Identifier: Apache-2.0
// What the protected RAMs have found in one clock, for the registers: how many words were bad, how
// many were corrected, and where the first bad one was (by the number of its RAM). Combinational.

`default_nettype none

module nf_ram_report
  import nf_ram_pkg::*;
(
  input  wire logic [RAMS*RAM_FAULT_W-1:0] faults,  // RAM i at i * RAM_FAULT_W
  // Number of bad and corrected words, place of the first bad one.
  output ram_events_t                      events
);
  localparam int BAD = RAM_FAULT_W - 1, CORRECTED = RAM_FAULT_W - 2;  // places in ram_fault_t

  logic [RAMS-1:0] bad, corrected, first;
  ram_events_t     seen;

  for (genvar i = 0; i < RAMS; i++) begin : g_ram
    assign bad[i]       = faults[i*RAM_FAULT_W + BAD];
    assign corrected[i] = faults[i*RAM_FAULT_W + CORRECTED];
  end

  assign first = bad & (~bad + 1'b1);

  // In nearly every clock there is nothing to report.
  logic [3:0]           ram;
  logic [RAM_ROW_W-1:0] row;

  always_comb begin
    ram = '0;
    row = '0;
    for (int i = 0; i < RAMS; i++) begin
      if (first[i]) begin
        ram = 4'(i);
        row = faults[i*RAM_FAULT_W +: RAM_ROW_W];
      end
    end
  end

  assign seen   = {4'($countones(bad)), 4'($countones(corrected)), ram, row};
  assign events = seen;
endmodule

`default_nettype wire
