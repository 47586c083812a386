// SPDX-License-Identifier: Apache-2.0
// CRC-16 of a 68-byte flit (link spec §2): F(x) * x^16 mod 0x1F053, initial value 0, flit bit 511
// the highest degree. Combinational: each CRC bit is the parity of the payload under a constant
// mask. Without `en` it is zero: no flit, no parity trees that toggle.

`default_nettype none

module nf_crc16
  import nf_link_pkg::*;
(
  input  wire logic                 en,       // compute; else `crc` is 0
  input  wire logic [PAYLOAD_W-1:0] payload,  // flit without CRC
  output logic [CRC_W-1:0]          crc       // CRC of the flit
);
  for (genvar i = 0; i < CRC_W; i++) begin : g_row
    localparam logic [PAYLOAD_W-1:0] MASK = crc_row(4'(i));

    // A function that is called: an expression is computed in every clock, whatever `en` says.
    function automatic logic parity(input logic [PAYLOAD_W-1:0] bits);
      /* verilator no_inline_task */
      return ^(bits & MASK);
    endfunction

    always_comb begin
      crc[i] = 1'b0;
      if (en) crc[i] = parity(payload);
    end
  end
endmodule

`default_nettype wire
