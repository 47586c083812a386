// SPDX-License-Identifier: Apache-2.0
// The one place where a good flit is judged and consumed (link spec §7, §8). Combinational, apart
// from the flag "the peer's INIT.Param has come".
//
// In: a CRC-clean flit (`flit_valid`, one a clock) and whether the rollover count says that it is
// an all-data flit. Out: exactly one of `take_protocol`, `take_adf`, a control strobe or an error.
// A link retry adds its state machine here: it gates `take_*` and `good_retryable`, and reads the
// RETRY strobes.

`default_nettype none
`include "nf_assert.svh"

module nf_link_rx_ctrl
  import nf_link_pkg::*;
(
  input  wire logic                 clk,
  input  wire logic                 rst_n,

  input  wire logic                 flit_valid,
  input  wire logic [PAYLOAD_W-1:0] flit,
  input  wire logic                 adf_due,         // more than three data slots are owed

  output logic                      any_clean,       // some CRC-clean flit
  output logic                      init_received,   // level: the peer's INIT.Param has come
  output logic                      good_retryable,  // one more flit to acknowledge
  output logic                      take_protocol,
  output logic                      take_adf,
  output logic                      take_credits,    // credit nibbles of the header are valid
  output logic                      protocol_error
);
  logic is_control, is_llcrd, is_retry, is_init, known, statics_clean;
  logic retry_idle, retry_req, retry_ack, retry_frame;
  logic [3:0]  llctrl, subtype;
  logic [63:0] hdr_mask, pay_mask;
  logic        init_received_q;

  assign llctrl  = flit[35:32];
  assign subtype = flit[39:36];

  assign is_control  = flit[0];
  assign is_llcrd    = (llctrl == LLCTRL_LLCRD) && (subtype == SUB_LLCRD_ACK);
  assign retry_idle  = (llctrl == LLCTRL_RETRY) && (subtype == SUB_RETRY_IDLE);
  assign retry_req   = (llctrl == LLCTRL_RETRY) && (subtype == SUB_RETRY_REQ);
  assign retry_ack   = (llctrl == LLCTRL_RETRY) && (subtype == SUB_RETRY_ACK);
  assign retry_frame = (llctrl == LLCTRL_RETRY) && (subtype == SUB_RETRY_FRAME);
  assign is_retry    = retry_idle || retry_req || retry_ack || retry_frame;
  assign is_init     = (llctrl == LLCTRL_INIT) && (subtype == SUB_INIT_PARAM);
  assign known       = is_llcrd || is_retry || is_init;

  assign hdr_mask = is_llcrd ? CTL_HDR_LLCRD : CTL_HDR_ANY;
  assign pay_mask = is_llcrd  ? CTL_PAY_LLCRD :
                    retry_req ? CTL_PAY_REQ   :
                    retry_ack ? CTL_PAY_ACK   :
                    is_init   ? CTL_PAY_INIT  : 64'd0;

  assign statics_clean = ((flit[63:0] & ~hdr_mask) == 64'd0) &&
                         ((flit[127:64] & ~pay_mask) == 64'd0) && (flit[PAYLOAD_W-1:128] == '0);

  logic control_ok, control_bad, early, second_init;

  assign control_ok  = flit_valid && !adf_due && is_control && known && statics_clean;
  assign control_bad = flit_valid && !adf_due && is_control && !(known && statics_clean);
  // Nothing but RETRY flits may come before the peer's INIT.Param, and that one comes once.
  assign early       = flit_valid && !init_received_q &&
                       (!is_control || (control_ok && is_llcrd));
  assign second_init = control_ok && is_init && init_received_q;

  assign any_clean      = flit_valid;
  assign init_received  = init_received_q;
  assign take_adf       = flit_valid && adf_due;
  assign take_protocol  = flit_valid && init_received_q && !adf_due && !is_control;
  assign take_credits   = take_protocol || (control_ok && is_llcrd && init_received_q);
  assign good_retryable = take_protocol || take_adf || (control_ok && is_init) ||
                          (control_ok && is_llcrd && init_received_q);
  assign protocol_error = control_bad || early || second_init;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n)                     init_received_q <= 1'b0;
    else if (control_ok && is_init) init_received_q <= 1'b1;
  end

  `NF_ASSERT_NEVER(AdfBeforeInit_A, adf_due && !init_received_q)
endmodule

`default_nettype wire
