// SPDX-License-Identifier: Apache-2.0
// Carry cell of ECP5: two LUT4, each with a step of a carry chain. Simulators and proofs take it
// for what stands here; for synthesis it is a cell of the library, whose name and ports it has.
//
// A step propagates the carry where its LUT4 is 1, else its carry is what the lowest four bits of
// the LUT4 say to A and B; its sum is the LUT4 with the carry that came. Chains without INJECT.

`default_nettype none

`ifdef FORMAL
`define NF_CCU2C_MODEL
`elsif SYNTHESIS
`else
`define NF_CCU2C_MODEL
`endif

`ifndef NF_CCU2C_MODEL
(* blackbox *)
`endif
module CCU2C #(
  parameter logic [15:0] INIT0     = 16'h0000,
  parameter logic [15:0] INIT1     = 16'h0000,
  parameter              INJECT1_0 = "NO",
  parameter              INJECT1_1 = "NO"
) (
  input  wire logic CIN,  // carry in
  input  wire logic A0,   // inputs of the first LUT4
  input  wire logic B0,   // input B
  input  wire logic C0,   // input C
  input  wire logic D0,   // input D
  input  wire logic A1,   // inputs of the second LUT4
  input  wire logic B1,   // input B
  input  wire logic C1,   // input C
  input  wire logic D1,   // input D
  output logic      S0,   // sum of the first step
  output logic      S1,   // sum of the second step
  output logic      COUT  // carry out
);
`ifdef NF_CCU2C_MODEL
  logic lut0, lut1, none0, none1, carry;

  // One input after the other, so that an X in a bit that is not chosen does not spread.
  function automatic logic lut4(
    input logic [15:0] init, input logic in_d, input logic in_c, input logic in_b,
    input logic in_a
  );
    logic [7:0] of_d;
    logic [3:0] of_c;
    of_d = in_d ? init[15:8] : init[7:0];
    of_c = in_c ? of_d[7:4] : of_d[3:0];
    return in_a ? (in_b ? of_c[3] : of_c[1]) : (in_b ? of_c[2] : of_c[0]);
  endfunction

  if (INJECT1_0 != "NO" || INJECT1_1 != "NO") begin : g_bad_inject
    initial $fatal(1, "CCU2C: this model has no INJECT");
  end

  assign lut0  = lut4(INIT0, D0, C0, B0, A0);
  assign lut1  = lut4(INIT1, D1, C1, B1, A1);
  assign none0 = lut4(INIT0, 1'b0, 1'b0, B0, A0);
  assign none1 = lut4(INIT1, 1'b0, 1'b0, B1, A1);
  assign carry = lut0 ? CIN : none0;
  assign COUT  = lut1 ? carry : none1;
  assign S0    = lut0 ^ CIN;
  assign S1    = lut1 ^ carry;
`endif
endmodule

`default_nettype wire
