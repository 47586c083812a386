// SPDX-License-Identifier: Apache-2.0
//
// Registers of one region: the shadow descriptor, the owner, and what is left of a commit.
//
// `wr_en` writes the shadow register at offset `wr_off` (other offsets are ignored); OWNER_LD only
// if the write is not `in_band`. `commit_end` marks the end of a commit of this region: its code is
// kept, and the epoch when it was accepted. `desc` is the shadow descriptor, not the active one.
// What is read: see nf_region_line.

`default_nettype none

module nf_region_regs
  import nf_pkg::*;
  import nf_regs_pkg::*;
#(
  parameter int TERN5 = 0
) (
  input  wire logic         clk,    // clock, rising edge
  input  wire logic         rst_n,  // asynchronous reset, active low

  input  wire logic         wr_en,    // write a shadow register
  input  wire logic [11:0]  wr_off,   // its offset in the region's block
  input  wire logic [31:0]  wr_data,  // data
  input  wire logic [31:0]  wr_mask,  // bits that are written
  input  wire logic         in_band,  // the control window writes

  input  wire logic         commit_end,    // a commit of this region ends
  input  wire commit_code_e commit_code,   // its result
  input  wire logic [31:0]  commit_epoch,  // its epoch
  output region_desc_t      desc,          // shadow descriptor
  output owner_t            owner,         // owner of the region
  output logic [31:0]       epoch,         // epoch of the last commit that was accepted
  output commit_code_e      code           // result of the last commit
);
  logic [31:0] base_lo_q, base_hi_q, state_lo_q, state_hi_q, lines_q, workers_q, config_q;
  logic [31:0] threshold_q, ld_mask_q, owner_q, epoch_q;
  commit_code_e code_q;

  // A BIND_SHIFT that is too great is taken as the greatest there is.
  logic [31:0] config_d, shift_d;

  assign config_d = write_bits(config_q, wr_data, wr_mask, WRITABLE_REGION_CONFIG);
  assign shift_d  = 32'(config_d[LSB_REGION_CONFIG_BIND_SHIFT +: W_REGION_CONFIG_BIND_SHIFT]);

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      base_lo_q   <= RESET_REGION_BASE_LO;
      base_hi_q   <= RESET_REGION_BASE_HI;
      state_lo_q  <= RESET_REGION_STATE_BASE_LO;
      state_hi_q  <= RESET_REGION_STATE_BASE_HI;
      lines_q     <= RESET_REGION_LINES_LOG2;
      workers_q   <= RESET_REGION_WORKERS;
      config_q    <= RESET_REGION_CONFIG;
      threshold_q <= RESET_REGION_THRESHOLD;
      ld_mask_q   <= RESET_REGION_LD_MASK;
      owner_q     <= RESET_REGION_OWNER_LD;
    end else if (wr_en) begin
      case (wr_off)
        ADDR_REGION_BASE_LO:
          base_lo_q   <= write_bits(base_lo_q, wr_data, wr_mask, WRITABLE_REGION_BASE_LO);
        ADDR_REGION_BASE_HI:
          base_hi_q   <= write_bits(base_hi_q, wr_data, wr_mask, WRITABLE_REGION_BASE_HI);
        ADDR_REGION_STATE_BASE_LO:
          state_lo_q  <= write_bits(state_lo_q, wr_data, wr_mask, WRITABLE_REGION_STATE_BASE_LO);
        ADDR_REGION_STATE_BASE_HI:
          state_hi_q  <= write_bits(state_hi_q, wr_data, wr_mask, WRITABLE_REGION_STATE_BASE_HI);
        ADDR_REGION_LINES_LOG2:
          lines_q     <= write_bits(lines_q, wr_data, wr_mask, WRITABLE_REGION_LINES_LOG2);
        ADDR_REGION_WORKERS:
          workers_q   <= write_bits(workers_q, wr_data, wr_mask, WRITABLE_REGION_WORKERS);
        ADDR_REGION_CONFIG: begin
          config_q <= config_d;
          if (shift_d > 32'(MAX_REGION_CONFIG_BIND_SHIFT))
            config_q[LSB_REGION_CONFIG_BIND_SHIFT +: W_REGION_CONFIG_BIND_SHIFT]
                <= W_REGION_CONFIG_BIND_SHIFT'(MAX_REGION_CONFIG_BIND_SHIFT);
        end
        ADDR_REGION_THRESHOLD:
          threshold_q <= write_bits(threshold_q, wr_data, wr_mask, WRITABLE_REGION_THRESHOLD);
        ADDR_REGION_LD_MASK:
          ld_mask_q   <= write_bits(ld_mask_q, wr_data, wr_mask, WRITABLE_REGION_LD_MASK);
        ADDR_REGION_OWNER_LD:
          if (!in_band)
            owner_q   <= write_bits(owner_q, wr_data, wr_mask, WRITABLE_REGION_OWNER_LD);
        default: ;
      endcase
    end
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      epoch_q <= '0;
      code_q  <= COMMIT_OK;
    end else if (commit_end) begin
      code_q <= commit_code;
      if (commit_code == COMMIT_OK) epoch_q <= commit_epoch;
    end
  end

  assign epoch           = epoch_q;
  assign code            = code_q;
  assign owner.valid     = owner_q[LSB_REGION_OWNER_LD_VALID];
  assign owner.ldid      = owner_q[LSB_REGION_OWNER_LD_LDID +: W_REGION_OWNER_LD_LDID];
  assign desc.base       = {
    base_hi_q[W_REGION_BASE_HI_ADDR-1:0],
    base_lo_q[LSB_REGION_BASE_LO_ADDR +: W_REGION_BASE_LO_ADDR]
  };
  assign desc.state_base = {
    state_hi_q[W_REGION_STATE_BASE_HI_ADDR-1:0],
    state_lo_q[LSB_REGION_STATE_BASE_LO_ADDR +: W_REGION_STATE_BASE_LO_ADDR]
  };
  assign desc.lines_log2 = lines_q[W_REGION_LINES_LOG2_VALUE-1:0];
  assign desc.workers    = workers_q[W_REGION_WORKERS_VALUE-1:0];
  assign desc.mode       = mode_of(config_q[LSB_REGION_CONFIG_MODE +: W_REGION_CONFIG_MODE]);
  assign desc.tie_minus  = config_q[LSB_REGION_CONFIG_TIE_MINUS];
  assign desc.strict     = config_q[LSB_REGION_CONFIG_STRICT];
  assign desc.bind_ld    = config_q[LSB_REGION_CONFIG_BIND];
  assign desc.bind_shift = config_q[LSB_REGION_CONFIG_BIND_SHIFT +: W_REGION_CONFIG_BIND_SHIFT];
  assign desc.codes_signed = config_q[LSB_REGION_CONFIG_SIGNED];
  assign desc.keep_sum   = config_q[LSB_REGION_CONFIG_KEEP_SUM];
  assign desc.tern5      = (TERN5 != 0) && (desc.mode == MODE_G_TERN5);
  assign desc.threshold  = threshold_q[W_REGION_THRESHOLD_VALUE-1:0];
  assign desc.ld_mask    = ld_mask_q[W_REGION_LD_MASK_VALUE-1:0];
endmodule

`default_nettype wire
