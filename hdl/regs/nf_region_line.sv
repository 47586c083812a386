// SPDX-License-Identifier: Apache-2.0
// The registers of one region as they are read: its shadow descriptor, its owner and its status.
//
// Purely combinational: register at offset 4 i is word i of `line`, zero where there is none.

`default_nettype none

module nf_region_line
  import nf_pkg::*;
  import nf_regs_pkg::*;
(
  input  wire region_desc_t desc,       // shadow descriptor
  input  wire owner_t       owner,      // owner of the region
  input  wire logic [31:0]  epoch,      // EPOCH as read
  input  wire commit_code_e code,       // result of the last commit
  input  wire logic         committed,  // the region has an active descriptor
  input  wire logic         done,       // all its lines are complete
  input  wire logic         fallback,   // it is in FALLBACK
  input  wire logic         saturated,  // a count has saturated
  input  wire logic         illegal,    // an illegal code was seen
  input  wire logic         closed,     // its round is closed
  input  wire logic [31:0]  complete,   // number of complete lines

  output logic [LINE_W-1:0] line  // registers of the region
);
  logic [31:0] config_rd, owner_rd, status;
  logic [63:0] base, state_base;

  assign base       = 64'({desc.base, 6'b0});
  assign state_base = 64'({desc.state_base, 6'b0});

  assign config_rd = 32'(desc.mode)         << LSB_REGION_CONFIG_MODE
                   | 32'(desc.tie_minus)    << LSB_REGION_CONFIG_TIE_MINUS
                   | 32'(desc.strict)       << LSB_REGION_CONFIG_STRICT
                   | 32'(desc.bind_ld)      << LSB_REGION_CONFIG_BIND
                   | 32'(desc.codes_signed) << LSB_REGION_CONFIG_SIGNED
                   | 32'(desc.bind_shift)   << LSB_REGION_CONFIG_BIND_SHIFT
                   | 32'(desc.keep_sum)     << LSB_REGION_CONFIG_KEEP_SUM;
  assign owner_rd  = 32'(owner.ldid)        << LSB_REGION_OWNER_LD_LDID
                   | 32'(owner.valid)       << LSB_REGION_OWNER_LD_VALID;
  assign status    = 32'(committed)         << LSB_REGION_STATUS_COMMITTED
                   | 32'(code)              << LSB_REGION_STATUS_CODE
                   | 32'(done)              << LSB_REGION_STATUS_DONE
                   | 32'(fallback)          << LSB_REGION_STATUS_FALLBACK
                   | 32'(saturated)         << LSB_REGION_STATUS_SATURATED
                   | 32'(illegal)           << LSB_REGION_STATUS_ILLEGAL_SEEN
                   | 32'(closed)            << LSB_REGION_STATUS_CLOSED;

  always_comb begin
    line = '0;
    line[8 * ADDR_REGION_BASE_LO        +: 32] = base[31:0];
    line[8 * ADDR_REGION_BASE_HI        +: 32] = base[63:32];
    line[8 * ADDR_REGION_STATE_BASE_LO  +: 32] = state_base[31:0];
    line[8 * ADDR_REGION_STATE_BASE_HI  +: 32] = state_base[63:32];
    line[8 * ADDR_REGION_LINES_LOG2     +: 32] = 32'(desc.lines_log2);
    line[8 * ADDR_REGION_WORKERS        +: 32] = 32'(desc.workers);
    line[8 * ADDR_REGION_CONFIG         +: 32] = config_rd;
    line[8 * ADDR_REGION_THRESHOLD      +: 32] = 32'(desc.threshold);
    line[8 * ADDR_REGION_LD_MASK        +: 32] = 32'(desc.ld_mask);
    line[8 * ADDR_REGION_EPOCH          +: 32] = epoch;
    line[8 * ADDR_REGION_STATUS         +: 32] = status;
    line[8 * ADDR_REGION_COMPLETE_LINES +: 32] = complete;
    line[8 * ADDR_REGION_OWNER_LD       +: 32] = owner_rd;
  end
endmodule

`default_nettype wire
