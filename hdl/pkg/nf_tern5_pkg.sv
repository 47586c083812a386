// SPDX-License-Identifier: Apache-2.0
// The code of G_TERN5: five ternary digits a byte, 320 elements a line.
//
// A byte is the sum of digit i times 3^i, i = 0..4; its digits are elements 5j to 5j+4 of byte j.
// Digit 0 is off, 1 is +1, 2 is -1, so that a zero byte is five zeros. Bytes 243 to 255 are
// illegal: they count as five zeros.

`default_nettype none

package nf_tern5_pkg;
  import nf_pkg::*;

  localparam int DIGITS = 5;                // of a byte
  localparam int BYTES  = LINE_W / 8;       // of a line
  localparam int TRITS  = DIGITS * BYTES;   // elements of a line

  // A line of elements, decoded: what is in neither is -1.
  typedef struct packed {
    logic [TRITS-1:0] plus;  // +1
    logic [TRITS-1:0] zero;
  } trits_t;

  // The value of digit 1 at a place.
  function automatic logic [7:0] weight_of(input int place);
    case (place)
      0:       return 8'd1;
      1:       return 8'd3;
      2:       return 8'd9;
      3:       return 8'd27;
      default: return 8'd81;
    endcase
  endfunction

  function automatic logic is_illegal(input logic [7:0] code);
    return code > 8'd242;
  endfunction

  // The digits of a byte, two bits each, digit 0 lowest.
  function automatic logic [2*DIGITS-1:0] digits_of(input logic [7:0] code);
    logic [7:0] rest;
    digits_of = '0;
    rest      = is_illegal(code) ? 8'd0 : code;
    for (int i = DIGITS - 1; i >= 0; i--) begin
      if (rest >= (weight_of(i) << 1)) begin
        digits_of[2*i +: 2] = 2'd2;
        rest                = rest - (weight_of(i) << 1);
      end else if (rest >= weight_of(i)) begin
        digits_of[2*i +: 2] = 2'd1;
        rest                = rest - weight_of(i);
      end
    end
  endfunction

  // The byte of five elements: +1 where `plus`, -1 where `minus`, else off.
  function automatic logic [7:0] code_of(
    input logic [DIGITS-1:0] plus, input logic [DIGITS-1:0] minus
  );
    code_of = '0;
    for (int i = 0; i < DIGITS; i++) begin
      if (plus[i])  code_of = code_of + weight_of(i);
      if (minus[i]) code_of = code_of + (weight_of(i) << 1);
    end
  endfunction

endpackage

`default_nettype wire
