// SPDX-License-Identifier: Apache-2.0
// nf_crc16 as the receiver uses it: `syndrome` is zero for a flit whose CRC is right (link spec
// §2).

`default_nettype none

module fv_crc16
  import nf_link_pkg::*;
(
  input  wire logic [FLIT_W-1:0] flit,
  output logic [CRC_W-1:0]       syndrome
);
  logic [CRC_W-1:0] crc;

  nf_crc16 dut (.en(1'b1), .payload(flit[PAYLOAD_W-1:0]), .crc);

  assign syndrome = crc ^ flit[FLIT_W-1:PAYLOAD_W];
endmodule

`default_nettype wire
