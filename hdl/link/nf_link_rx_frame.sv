// SPDX-License-Identifier: Apache-2.0
// Receive framing: Protocol ID rules and CRC check (link spec §1, §2). One register stage.
//
// Pins: one flit a clock while `rx_valid`, no back-pressure. Output, one clock later: `flit_valid`
// for one clock with a flit of CXL.cachemem whose CRC is clean, or one of the event strobes.
// `lost`: a flit is missing (`crc_error` or `pid_uncorrectable`), which starts a local retry. Flits
// seen while the physical layer is down are ignored.

`default_nettype none
`include "nf_assert.svh"

module nf_link_rx_frame
  import nf_link_pkg::*;
(
  input  wire logic              clk,    // clock, rising edge
  input  wire logic              rst_n,  // asynchronous reset, active low

  input  wire logic              phy_up,          // the physical layer is up
  input  wire logic              rx_valid,        // a flit arrives; no back-pressure
  input  wire logic [15:0]       rx_protocol_id,  // Protocol ID of the flit
  input  wire logic [FLIT_W-1:0] rx_flit,         // flit with CRC

  output logic                   flit_valid,  // flit with a clean CRC
  output logic [PAYLOAD_W-1:0]   flit,        // its payload

  output logic                   lost,  // a flit is lost

  output logic                   rx_event,           // a flit was seen
  output logic                   crc_error,          // strobe: the CRC does not match
  // Strobe: Protocol ID with an error that was corrected.
  output logic                   pid_correctable,
  output logic                   pid_uncorrectable,  // strobe: Protocol ID not recognised
  output logic                   pid_unexpected      // strobe: Protocol ID of another protocol
);
  function automatic logic is_cachemem(input logic [7:0] code);
    is_cachemem = (code == PID_CACHEMEM) || (code == PID_CACHEMEM_EDS);
  endfunction

  function automatic logic is_null(input logic [7:0] code);
    is_null = (code == PID_NULL) || (code == PID_NULL_EDS);
  endfunction

  function automatic logic is_known(input logic [7:0] code);
    is_known = is_cachemem(code) || is_null(code) || (code == PID_IO) || (code == PID_IO_EDS) ||
               (code == PID_ALMP) || (code == PID_ALMP_EDS);
  endfunction

  // ---- Protocol ID: one 8-bit code twice -------------------------------------------------------
  logic [7:0] pid_lo, pid_hi, pid;
  logic       lo_known, hi_known, pid_bad, pid_fixed, pid_cachemem;

  assign pid_lo       = rx_protocol_id[7:0];
  assign pid_hi       = rx_protocol_id[15:8];
  assign lo_known     = is_known(pid_lo);
  assign hi_known     = is_known(pid_hi);
  assign pid          = lo_known ? pid_lo : pid_hi;
  assign pid_fixed    = lo_known != hi_known;
  assign pid_bad      = (!lo_known && !hi_known) || (lo_known && hi_known && (pid_lo != pid_hi));
  assign pid_cachemem = !pid_bad && is_cachemem(pid);

  logic present;

  assign present = rx_valid && phy_up;

  // ---- CRC -------------------------------------------------------------------------------------
  logic [CRC_W-1:0] crc;
  logic             crc_clean;

  nf_crc16 u_crc (
    .en(present), .payload(rx_flit[PAYLOAD_W-1:0]),
    .crc(crc)
  );

  assign crc_clean = (crc == rx_flit[FLIT_W-1:PAYLOAD_W]);

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      flit_valid        <= 1'b0;
      rx_event          <= 1'b0;
      crc_error         <= 1'b0;
      pid_correctable   <= 1'b0;
      pid_uncorrectable <= 1'b0;
      pid_unexpected    <= 1'b0;
    end else begin
      flit_valid        <= present && pid_cachemem && crc_clean;
      rx_event          <= present;
      crc_error         <= present && pid_cachemem && !crc_clean;
      pid_correctable   <= present && pid_fixed;
      pid_uncorrectable <= present && pid_bad;
      pid_unexpected    <= present && !pid_bad && !is_cachemem(pid) && !is_null(pid);
    end
  end

  assign lost = crc_error || pid_uncorrectable;

  always_ff @(posedge clk) begin
    if (present) flit <= rx_flit[PAYLOAD_W-1:0];
  end

  `NF_ASSERT_NEVER(CrcIdle_A, !present && crc != '0)
  `NF_ASSERT_KEEPS(FlitKeeps_A, !present, flit)
endmodule

`default_nettype wire
