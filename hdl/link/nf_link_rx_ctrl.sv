// SPDX-License-Identifier: Apache-2.0
// The one place where a good flit is judged and consumed (link spec §7-§9). Combinational, apart
// from the flag "the peer's INIT.Param has come".
//
// In: a CRC-clean flit (`flit_valid`, one a clock), whether the rollover count says that it is an
// all-data flit, and the state of the local retry. Out: exactly one of `take_protocol`, `take_adf`,
// `take_llcrd`, `take_init`, a RETRY strobe or none; an error may accompany it. While
// `normal` is low only RETRY flits count, whatever is owed, and what looks like a broken control
// flit may be data; under `discard` nothing counts. `broken`: a control flit that breaks its form.
// Nobody knows which one it was, nor whether it counts in ESeq: it is lost, as if by its CRC.

`default_nettype none
`include "nf_assert.svh"

module nf_link_rx_ctrl
  import nf_pkg::*, nf_link_pkg::*;
(
  input  wire logic                 clk,    // clock, rising edge
  input  wire logic                 rst_n,  // asynchronous reset, active low

  input  wire logic                 flit_valid,  // a CRC-clean flit
  input  wire logic [PAYLOAD_W-1:0] flit,        // its payload
  input  wire logic                 adf_due,  // more than three data slots are owed
  input  wire logic                 normal,   // RETRY_LOCAL_NORMAL
  input  wire logic                 discard,  // PHY_REINIT, ABORT

  output logic                      any_clean,       // some CRC-clean flit
  output logic                      init_received,   // level: the peer's INIT.Param has come
  output logic                      good_retryable,  // one more flit to acknowledge
  output logic                      take_protocol,   // a protocol flit
  output logic                      take_adf,        // an all-data flit
  output logic                      take_init,       // the first INIT.Param
  output logic                      take_credits,    // credit nibbles of the header are valid
  output logic                      take_ack,        // flits of ours are acknowledged
  output logic [NUM_ACK_W-1:0]      ack_count,       // flits acknowledged

  output logic                      got_frame,  // RETRY.Frame
  output logic                      got_req,    // RETRY.Req
  output logic                      got_ack,    // RETRY.Ack
  output logic                      got_other,  // a flit that is no RETRY.Frame
  output logic                      broken,     // a control flit that breaks its form

  output logic                      protocol_error,  // a rule of the link is broken
  output link_error_e               error_kind       // which rule
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

  // ---- what the flit is, in this state ---------------------------------------------------------
  logic seen, take, control_ok, control_bad, retry_ok, take_llcrd, early, second_init;

  assign seen        = flit_valid && !discard;
  assign take        = flit_valid && normal;
  assign control_ok  = is_control && known && statics_clean && !(normal && adf_due);
  assign control_bad = take && !adf_due && is_control && !(known && statics_clean);
  assign retry_ok    = seen && control_ok;

  assign take_adf      = take && adf_due;
  assign take_protocol = take && init_received_q && !adf_due && !is_control;
  assign take_llcrd    = take && init_received_q && control_ok && is_llcrd;
  assign take_init     = take && !init_received_q && control_ok && is_init;

  // Nothing but RETRY flits may come before the peer's INIT.Param, and that one comes once.
  assign early       = take && !init_received_q && (!is_control || (control_ok && is_llcrd));
  assign second_init = take && init_received_q && control_ok && is_init;

  assign any_clean      = flit_valid;
  assign init_received  = init_received_q;
  assign take_credits   = take_protocol || take_llcrd;
  assign good_retryable = take_protocol || take_adf || take_llcrd || take_init || second_init;

  // Ak in a header acknowledges 8 flits; Full_Ack = {Ack[7:4], Ak, Ack[2:0]}.
  assign take_ack  = take_llcrd || (take_protocol && flit[2]);
  assign ack_count = take_llcrd ? {flit[71:68], flit[2], flit[66:64]} : NUM_ACK_W'(8);

  assign got_frame = retry_ok && retry_frame;
  assign got_req   = retry_ok && retry_req;
  assign got_ack   = retry_ok && retry_ack;
  assign got_other = seen && !got_frame && !control_bad;
  assign broken    = control_bad;

  assign protocol_error = control_bad || early || second_init;
  assign error_kind     = control_bad ? LINK_ERR_CONTROL     :
                          early       ? LINK_ERR_BEFORE_INIT :
                          second_init ? LINK_ERR_SECOND_INIT : LINK_ERR_NONE;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n)         init_received_q <= 1'b0;
    else if (take_init) init_received_q <= 1'b1;
  end

  `NF_ASSERT_NEVER(AdfBeforeInit_A, adf_due && !init_received_q)
endmodule

`default_nettype wire
