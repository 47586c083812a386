// SPDX-License-Identifier: Apache-2.0
// nf_crc16 and its MyHDL twin on the same flit, with `en` and without.

`default_nettype none

module fv_twin_crc16
  import nf_link_pkg::*;
(
  input  wire logic [PAYLOAD_W-1:0] flit,
  output logic [CRC_W-1:0]          crc,
  output logic [CRC_W-1:0]          twin,
  output logic [CRC_W-1:0]          idle,
  output logic [CRC_W-1:0]          twin_idle
);
  nf_crc16       dut         (.en(1'b1), .payload(flit), .crc);
  myhdl_nf_crc16 u_twin      (.en(1'b1), .payload(flit), .crc(twin));
  nf_crc16       u_idle      (.en(1'b0), .payload(flit), .crc(idle));
  myhdl_nf_crc16 u_twin_idle (.en(1'b0), .payload(flit), .crc(twin_idle));
endmodule

`default_nettype wire
