// SPDX-License-Identifier: Apache-2.0
// Check bits of a word of any width, and the check of a word that was stored. Combinational.
//
//   ECC 0  none: `check` is 0, everything is taken as it comes.
//   ECC 1  parity, one bit for 64 at most: bit i of the word belongs to check bit i mod CHECK_W, so
//          that neighbours, which one particle may hit together, belong to different ones.
//   ECC 2  SECDED (72,64) for each 64 bits.
//
// `encoded` are the check bits of `word`; `data`, `bad` and `corrected` are of `word` as it was
// stored with `check`.

`default_nettype none

module nf_ram_code
  import nf_ram_pkg::*;
#(
  parameter int WIDTH   = 512,
  parameter int ECC     = 1,
  parameter int CHECK_W = ram_check_w(WIDTH, ECC)  // not to be set
) (
  input  wire logic [WIDTH-1:0]   word,       // data, as stored or to be stored
  input  wire logic [CHECK_W-1:0] check,      // check bits that were stored with it
  output logic [CHECK_W-1:0]      encoded,    // check bits of `word`
  output logic [WIDTH-1:0]        data,       // `word`, with SECDED corrected
  output logic                    corrected,  // one wrong bit was put right
  output logic                    bad         // `data` cannot be trusted
);
  localparam int WORDS = ram_words(WIDTH);

  if (ECC < ECC_NONE || ECC > ECC_SECDED) begin : g_bad_ecc
    initial $fatal(1, "nf_ram_code: ECC must be 0, 1 or 2");
  end

  if (ECC == ECC_SECDED) begin : g_secded
    logic [64*WORDS-1:0] padded;
    logic [64*WORDS-1:0] right;  // more than WIDTH: what was padded
    logic                unused_right;
    logic [WORDS-1:0]    one, more;

    assign padded = (64*WORDS)'(word);
    for (genvar w = 0; w < WORDS; w++) begin : g_word
      nf_secded u_secded (
        .word (padded[64*w +: 64]), .check (check[8*w +: 8]),
        .encoded (encoded[8*w +: 8]),
        .data (right[64*w +: 64]), .corrected (one[w]),
        .bad (more[w])
      );
    end
    assign unused_right = ^right;
    assign data      = right[WIDTH-1:0];
    assign corrected = |one && !bad;
    assign bad       = |more;
  end else if (ECC == ECC_PARITY) begin : g_parity
    // Halves upon halves, which is also what simulates fastest.
    logic [64*CHECK_W-1:0] fold64;
    logic [32*CHECK_W-1:0] fold32;
    logic [16*CHECK_W-1:0] fold16;
    logic [8*CHECK_W-1:0]  fold8;
    logic [4*CHECK_W-1:0]  fold4;
    logic [2*CHECK_W-1:0]  fold2;

    assign fold64    = (64*CHECK_W)'(word);
    assign fold32    = fold64[64*CHECK_W-1:32*CHECK_W] ^ fold64[32*CHECK_W-1:0];
    assign fold16    = fold32[32*CHECK_W-1:16*CHECK_W] ^ fold32[16*CHECK_W-1:0];
    assign fold8     = fold16[16*CHECK_W-1:8*CHECK_W] ^ fold16[8*CHECK_W-1:0];
    assign fold4     = fold8[8*CHECK_W-1:4*CHECK_W] ^ fold8[4*CHECK_W-1:0];
    assign fold2     = fold4[4*CHECK_W-1:2*CHECK_W] ^ fold4[2*CHECK_W-1:0];
    assign encoded   = fold2[2*CHECK_W-1:CHECK_W] ^ fold2[CHECK_W-1:0];
    assign data      = word;
    assign corrected = 1'b0;
    assign bad       = (encoded != check);
  end else begin : g_none
    logic unused_check;
    assign unused_check = check[0];
    assign encoded      = '0;
    assign data         = word;
    assign corrected    = 1'b0;
    assign bad          = 1'b0;
  end
endmodule

`default_nettype wire
