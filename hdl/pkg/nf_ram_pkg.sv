// SPDX-License-Identifier: Apache-2.0
// Protected RAMs (controller, second edition, section 8): which there are, their codes, and what
// travels between them and the registers.

`default_nettype none

package nf_ram_pkg;

  // The RAMs, by the numbers that registers use.
  typedef enum logic [3:0] {
    RAM_PLANES   = 4'd0,  // count planes of the slots
    RAM_BOOK     = 4'd1,  // bookkeeping of the slots
    RAM_EVICT    = 4'd2,  // lines on their way back to memory
    RAM_PARKED   = 4'd3,  // data of operations that wait for their slot
    RAM_DEFERRED = 4'd4,  // data of operations that wait for any slot
    RAM_STORES   = 4'd5,  // data of FP32 stores
    RAM_MARKS    = 4'd6,  // which lines may have a record in memory
    RAM_ANSWERS  = 4'd7,  // data of answers that wait for the link
    RAM_WRITES   = 4'd8,  // data of writes that the link has received
    RAM_RETRY    = 4'd9   // flits that the host has not acknowledged
  } ram_e;

  localparam int RAMS      = 10;
  localparam int RAM_ROW_W = 8;
  localparam int RAM_BIT_W = 13;  // a row with its check bits has less than 8,192

  // Parameter ECC.
  localparam int ECC_NONE   = 0;
  localparam int ECC_PARITY = 1;
  localparam int ECC_SECDED = 2;

  // RAS.INJECT: for one clock, a stored bit flips.
  typedef struct packed {
    logic                 valid;
    ram_e                 ram;
    logic [RAM_ROW_W-1:0] row;
    logic [RAM_BIT_W-1:0] place;  // data from 0 up, then check bits
  } ram_flip_t;

  // What a RAM has found in the word that was used in this clock.
  typedef struct packed {
    logic                 bad;        // it cannot be trusted
    logic                 corrected;  // one bit of it was wrong
    logic [RAM_ROW_W-1:0] row;
  } ram_fault_t;

  localparam int RAM_FAULT_W = $bits(ram_fault_t);

  function automatic ram_fault_t make_ram_fault(
    input logic bad, input logic corrected, input logic [RAM_ROW_W-1:0] row
  );
    ram_fault_t fault;
    fault.bad       = bad;
    fault.corrected = corrected;
    fault.row       = row;
    return fault;
  endfunction

  // What all RAMs have found in one clock, for the registers; `ram` and `row` are of the first one
  // that is bad.
  typedef struct packed {
    logic [3:0]           ram_parity;
    logic [3:0]           ram_corrected;
    ram_e                 ram;
    logic [RAM_ROW_W-1:0] row;
  } ram_events_t;

  function automatic int ram_words(input int width);
    return (width + 63) / 64;
  endfunction

  // Check bits of a word of `width` bits: with parity a power of two, so that the group of a bit is
  // a slice of its number; one that is always 0 where there is no check.
  function automatic int ram_check_w(input int width, input int ecc);
    return (ecc == ECC_SECDED) ? 8 * ram_words(width)
           : (ecc == ECC_PARITY) ? 1 << $clog2(ram_words(width)) : 1;
  endfunction

  // SECDED (72,64) after Hsiao: check bit `row` is the parity of the data bits in mask `row`, 7
  // first. The columns are different words of 8 bits with three ones, then with five, in order of
  // their value: of odd weight, so that two wrong bits never look like one. Written out, because
  // Icarus takes minutes to compute them for every RAM.
  localparam logic [8*64-1:0] SECDED_MASKS = {
    64'h00ff_fff8_0000_0000,
    64'hc0fc_0007_fff0_0000,
    64'h3e83_e007_c00f_fc00,
    64'hbd42_1e04_3c0f_03f0,
    64'h7b21_11c2_2388_e38e,
    64'hf710_8931_1264_9a6d,
    64'hef08_44a8_8952_555b,
    64'hdf04_2258_44b1_2cb7
  };
endpackage

`default_nettype wire
