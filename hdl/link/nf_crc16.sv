// SPDX-License-Identifier: Apache-2.0
// CRC-16 of a 68-byte flit (link spec §2): F(x) * x^16 mod 0x1F053, initial value 0, flit bit 511
// the highest degree. Combinational: each CRC bit is the parity of the payload under a constant
// mask.

`default_nettype none

module nf_crc16
  import nf_link_pkg::*;
(
  input  wire logic [PAYLOAD_W-1:0] payload,
  output logic [CRC_W-1:0]          crc
);
  for (genvar i = 0; i < CRC_W; i++) begin : g_row
    localparam logic [PAYLOAD_W-1:0] MASK = crc_row(4'(i));
    assign crc[i] = ^(payload & MASK);
  end
endmodule

`default_nettype wire
