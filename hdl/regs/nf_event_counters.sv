// SPDX-License-Identifier: Apache-2.0
//
// The event counters of the register map: one 32-bit saturating counter for each member of
// core_events_t and link_events_t, and two of ram_events_t. `clear` clears them all. The read port
// is combinational: `rd_data` is the 16 words from the byte address 64 `rd_line`, zero where there
// is no counter.

`default_nettype none

module nf_event_counters
  import nf_pkg::*;
  import nf_ram_pkg::*;
  import nf_regs_pkg::*;
(
  input  wire logic         clk,          // clock, rising edge
  input  wire logic         rst_n,        // asynchronous reset, active low
  input  wire logic         clear,        // clears all counters
  input  wire core_events_t core_events,  // core event strobes and small counts
  input  wire link_events_t link_events,  // link event strobes
  input  wire ram_events_t  ram_events,   // faults of the protected RAMs in this cycle
  input  wire logic [5:0]   rd_line,      // line of 16 registers that is read
  output logic [511:0]      rd_data       // its 16 words
);
  logic unused_place;
  assign unused_place = ^{ram_events.ram, ram_events.row};

  // Counters are numbered by their address; gaps between them hold none.
  localparam int WORDS = (int'(ADDR_LAST_COUNTER) - int'(ADDR_FIRST_COUNTER)) / 4 + 1;

  function automatic int index(input logic [11:0] addr);
    index = (int'(addr) - int'(ADDR_FIRST_COUNTER)) / 4;
  endfunction

  function automatic logic [WORDS-1:0] at(input logic [11:0] addr, input logic event_strobe);
    at = WORDS'(event_strobe) << index(addr);
  endfunction

  logic [WORDS-1:0]    strobe;  // without those that count more than one event a clock
  logic [WORDS*32-1:0] count;
  logic                unused_strobe;  // the gaps

  assign unused_strobe = ^strobe;

  assign strobe = at(ADDR_SLOT_HIT,          core_events.slot_hit)
                | at(ADDR_SLOT_MISS,         core_events.slot_miss)
                | at(ADDR_EVICTION,          core_events.eviction)
                | at(ADDR_FILL,              core_events.fill)
                | at(ADDR_DUPLICATE,         core_events.duplicate)
                | at(ADDR_EARLY_READ,        core_events.early_read)
                | at(ADDR_CONTRIBUTION,      core_events.contribution)
                | at(ADDR_LATE,              core_events.late)
                | at(ADDR_REFUSED,           core_events.refused)
                | at(ADDR_UNMAPPED,          core_events.unmapped)
                | at(ADDR_UNSUPPORTED,       core_events.unsupported)
                | at(ADDR_MEM_READ_ERROR,    core_events.mem_read_error)
                | at(ADDR_MEM_WRITE_ERROR,   core_events.mem_write_error)
                | at(ADDR_MEM_POISON,        core_events.mem_poison)
                | at(ADDR_CRC_ERROR,         link_events.crc_error)
                | at(ADDR_PID_CORRECTABLE,   link_events.pid_correctable)
                | at(ADDR_PID_UNCORRECTABLE, link_events.pid_uncorrectable)
                | at(ADDR_PID_UNEXPECTED,    link_events.pid_unexpected)
                | at(ADDR_STRAY_DATA,        link_events.stray_data)
                | at(ADDR_CACHE_MESSAGE,     link_events.cache_message)
                | at(ADDR_PROTOCOL_ERROR,    link_events.protocol_error)
                | at(ADDR_RX_FLIT,           link_events.rx_flit)
                | at(ADDR_TX_FLIT,           link_events.tx_flit)
                | at(ADDR_RETRY_LOCAL,       link_events.retry_local)
                | at(ADDR_RETRY_REMOTE,      link_events.retry_remote)
                | at(ADDR_RETRY_TIMEOUT,     link_events.retry_timeout)
                | at(ADDR_PHY_REINIT,        link_events.phy_reinit);

  for (genvar i = 0; i < WORDS; i++) begin : g_word
    if (is_register(ADDR_FIRST_COUNTER + 12'(4 * i))) begin : g_counter
      // 9 bits hold the 256 elements of a line; the other counters use one of them.
      nf_counter #(.INC_W(9)) u_counter (
        .clk, .rst_n,
        .clear,
        .inc(i == index(ADDR_ILLEGAL_CODE)      ? core_events.illegal_code
             : i == index(ADDR_POISON_RECEIVED) ? 9'(core_events.poison_received)
             : i == index(ADDR_RAM_PARITY)      ? 9'(ram_events.ram_parity)
             : i == index(ADDR_RAM_CORRECTED)   ? 9'(ram_events.ram_corrected)
                                                : 9'(strobe[i])),
        .count(count[i*32 +: 32])
      );
    end else begin : g_gap
      assign count[i*32 +: 32] = '0;
    end
  end

  // Below the first counter the subtraction wraps to a large number.
  localparam int LINES = (WORDS + 15) / 16;
  logic [5:0]           line;
  logic [LINES*512-1:0] lines;

  assign lines   = (LINES*512)'(count);
  assign line    = rd_line - ADDR_FIRST_COUNTER[11:6];
  assign rd_data = (line < 6'(LINES)) ? lines[int'(line) * 512 +: 512] : '0;
endmodule

`default_nettype wire
