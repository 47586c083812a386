// SPDX-License-Identifier: Apache-2.0
//
// Registers of the protected RAMs: the first error (RAS_ERROR) and the injection of one
// (RAS_INJECT).
//
// Writes as nf_regs sees them; `ras_error` and `ras_inject` are what is read. `flip` is valid for
// one clock, the one after RAS_INJECT.GO was written.

`default_nettype none

module nf_ras_regs
  import nf_ram_pkg::*;
  import nf_regs_pkg::*;
(
  input  wire logic        clk,         // clock, rising edge
  input  wire logic        rst_n,       // asynchronous reset, active low
  input  wire logic        wr_valid,    // write of a register
  input  wire logic [11:0] wr_addr,     // its byte address
  input  wire logic [31:0] wr_data,     // data
  input  wire logic [31:0] wr_mask,     // bits that are written
  input  wire ram_events_t ram_events,  // faults of the protected RAMs in this cycle
  output ram_flip_t        flip,        // bit to flip, valid for one cycle
  output logic [31:0]      ras_error,   // RAS_ERROR as read
  output logic [31:0]      ras_inject   // RAS_INJECT as read
);
  // ---- first error ------------------------------------------------------------------------------
  logic        found, clear, valid_q;
  ram_events_t first_q;  // the counts in it are not used
  logic        unused_counts;

  assign found = (ram_events.ram_parity != '0);
  assign clear = wr_valid && (wr_addr == ADDR_RAS_ERROR)
                 && |(wr_data & wr_mask & 32'(1) << LSB_RAS_ERROR_VALID);
  assign unused_counts = ^{first_q.ram_parity, first_q.ram_corrected};

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      valid_q <= 1'b0;
      first_q <= '0;
    end else if (found && (!valid_q || clear)) begin
      valid_q <= 1'b1;
      first_q <= ram_events;
    end else if (clear) begin
      valid_q <= 1'b0;
    end
  end

  // ---- injection --------------------------------------------------------------------------------
  logic [31:0] inject_q;
  logic        go_q;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      inject_q <= RESET_RAS_INJECT;
      go_q     <= 1'b0;
    end else begin
      go_q <= wr_valid && (wr_addr == ADDR_RAS_INJECT)
              && |(wr_data & wr_mask & 32'(1) << LSB_RAS_INJECT_GO);
      if (wr_valid && wr_addr == ADDR_RAS_INJECT)
        inject_q <= write_bits(inject_q, wr_data, wr_mask, WRITABLE_RAS_INJECT);
    end
  end

  assign flip = {go_q, inject_q[LSB_RAS_INJECT_RAM +: W_RAS_INJECT_RAM],
                 inject_q[LSB_RAS_INJECT_ROW +: W_RAS_INJECT_ROW],
                 inject_q[LSB_RAS_INJECT_PLACE +: W_RAS_INJECT_PLACE]};

  assign ras_error  = 32'(valid_q)     << LSB_RAS_ERROR_VALID
                    | 32'(first_q.ram) << LSB_RAS_ERROR_RAM
                    | 32'(first_q.row) << LSB_RAS_ERROR_ROW;
  assign ras_inject = inject_q;
endmodule

`default_nettype wire
