// SPDX-License-Identifier: Apache-2.0
// The name of each code and state as text, for waves (see nf_wave.svh). Simulation only.

`default_nettype none

package nf_wave_pkg;
  import nf_pkg::*;
  import nf_core_pkg::*;
  import nf_link_pkg::*;

  localparam int NAME_W = 8 * 24;  // bits of the longest name

`ifndef SYNTHESIS
`define NF_NAME(member) member: return NAME_W'(`"member`");
  // verilator coverage_off
  function automatic logic [NAME_W-1:0] mode_name(input mode_e code);
    case (code)
      `NF_NAME(MODE_IDENTITY)
      `NF_NAME(MODE_G_BINARY)
      `NF_NAME(MODE_G_TERNARY)
      `NF_NAME(MODE_FP32)
      `NF_NAME(MODE_G_INT4)
      `NF_NAME(MODE_G_INT8)
      `NF_NAME(MODE_G_TERN5)
      default: return NAME_W'("?");
    endcase
  endfunction

  function automatic logic [NAME_W-1:0] cause_name(input cause_e code);
    case (code)
      `NF_NAME(CAUSE_NONE)
      `NF_NAME(CAUSE_UNSUPPORTED)
      `NF_NAME(CAUSE_UNMAPPED)
      `NF_NAME(CAUSE_STATE_AREA)
      `NF_NAME(CAUSE_LD_MASK)
      `NF_NAME(CAUSE_SELECTOR)
      `NF_NAME(CAUSE_PARTIAL)
      `NF_NAME(CAUSE_BIND)
      `NF_NAME(CAUSE_CONTROL)
      default: return NAME_W'("?");
    endcase
  endfunction

  function automatic logic [NAME_W-1:0] commit_code_name(input commit_code_e code);
    case (code)
      `NF_NAME(COMMIT_OK)
      `NF_NAME(COMMIT_WORKERS)
      `NF_NAME(COMMIT_THRESHOLD)
      `NF_NAME(COMMIT_LINES)
      `NF_NAME(COMMIT_BASE_ALIGN)
      `NF_NAME(COMMIT_WINDOW_MEMORY)
      `NF_NAME(COMMIT_WINDOW_OVERLAP)
      `NF_NAME(COMMIT_STATE_ALIGN)
      `NF_NAME(COMMIT_STATE_MEMORY)
      `NF_NAME(COMMIT_STATE_OVERLAP)
      `NF_NAME(COMMIT_MODE)
      `NF_NAME(COMMIT_PLANES)
      default: return NAME_W'("?");
    endcase
  endfunction

  function automatic logic [NAME_W-1:0] commit_state_name(input commit_state_e code);
    case (code)
      `NF_NAME(COMMIT_IDLE)
      `NF_NAME(COMMIT_DRAIN)
      `NF_NAME(COMMIT_STILL)
      `NF_NAME(COMMIT_APPLY)
      `NF_NAME(COMMIT_DONE)
      default: return NAME_W'("?");
    endcase
  endfunction

  function automatic logic [NAME_W-1:0] op_kind_name(input op_kind_e code);
    case (code)
      `NF_NAME(OP_CONTRIBUTE)
      `NF_NAME(OP_VOTE)
      `NF_NAME(OP_PLANE)
      `NF_NAME(OP_FP_STORE)
      `NF_NAME(OP_FP_SUM)
      `NF_NAME(OP_FP_RAW)
      `NF_NAME(OP_INFO)
      `NF_NAME(OP_SUM)
      default: return NAME_W'("?");
    endcase
  endfunction

  function automatic logic [NAME_W-1:0] action_name(input action_e code);
    case (code)
      `NF_NAME(ACT_OP)
      `NF_NAME(ACT_FILL)
      `NF_NAME(ACT_MISS)
      `NF_NAME(ACT_STORED)
      `NF_NAME(ACT_KEEP)
      default: return NAME_W'("?");
    endcase
  endfunction

  function automatic logic [NAME_W-1:0] fill_kind_name(input fill_kind_e code);
    case (code)
      `NF_NAME(FILL_FETCH)
      `NF_NAME(FILL_LOST)
      default: return NAME_W'("?");
    endcase
  endfunction

  function automatic logic [NAME_W-1:0] lrsm_name(input lrsm_e code);
    case (code)
      `NF_NAME(LRSM_NORMAL)
      `NF_NAME(LRSM_LLRREQ)
      `NF_NAME(LRSM_LOCAL_IDLE)
      `NF_NAME(LRSM_PHY_REINIT)
      `NF_NAME(LRSM_ABORT)
      default: return NAME_W'("?");
    endcase
  endfunction

  function automatic logic [NAME_W-1:0] link_error_name(input link_error_e code);
    case (code)
      `NF_NAME(LINK_ERR_NONE)
      `NF_NAME(LINK_ERR_CRC)
      `NF_NAME(LINK_ERR_PROTOCOL_ID)
      `NF_NAME(LINK_ERR_CONTROL)
      `NF_NAME(LINK_ERR_BEFORE_INIT)
      `NF_NAME(LINK_ERR_SECOND_INIT)
      `NF_NAME(LINK_ERR_SLOT)
      `NF_NAME(LINK_ERR_CREDIT)
      `NF_NAME(LINK_ERR_ACK)
      `NF_NAME(LINK_ERR_RETRY_REQ)
      `NF_NAME(LINK_ERR_RETRY_ACK)
      `NF_NAME(LINK_ERR_ABORT)
      default: return NAME_W'("?");
    endcase
  endfunction

  function automatic logic [NAME_W-1:0] init_state_name(input init_state_e code);
    case (code)
      `NF_NAME(INIT_SILENT)
      `NF_NAME(INIT_PARAM)
      `NF_NAME(INIT_WAIT)
      `NF_NAME(INIT_UP)
      default: return NAME_W'("?");
    endcase
  endfunction

  function automatic logic [NAME_W-1:0] retry_subtype_name(input retry_subtype_e code);
    case (code)
      `NF_NAME(SUB_RETRY_IDLE)
      `NF_NAME(SUB_RETRY_REQ)
      `NF_NAME(SUB_RETRY_ACK)
      `NF_NAME(SUB_RETRY_FRAME)
      default: return NAME_W'("?");
    endcase
  endfunction

  // verilator coverage_on
`undef NF_NAME
`endif

endpackage

`default_nettype wire
