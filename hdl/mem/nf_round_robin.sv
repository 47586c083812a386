// SPDX-License-Identifier: Apache-2.0
// Round robin: the first client that asks after the one that was served last. Combinational.
//
// `turn` is meaningful while one of `request` is high; without any it stays at `last`, which is the
// number of a client.

`default_nettype none

module nf_round_robin #(
  parameter int CLIENTS = 2
) (
  input  wire logic [CLIENTS-1:0] request,  // clients that ask
  input  wire logic [2:0]         last,     // client that was served last
  output logic [2:0]              turn      // client whose turn it is
);
  if (CLIENTS < 1 || CLIENTS > 8) begin : g_bad_clients
    initial $fatal(1, "nf_round_robin: CLIENTS must be 1..8");
  end

  // The first one, and before it the first one after `last`: a remainder by CLIENTS would take a
  // divider.
  always_comb begin
    turn = last;
    for (int c = CLIENTS - 1; c >= 0; c--) begin
      if (request[c]) turn = 3'(c);
    end
    for (int c = CLIENTS - 1; c >= 0; c--) begin
      if (request[c] && 32'(last) < c) turn = 3'(c);
    end
  end
endmodule

`default_nettype wire
