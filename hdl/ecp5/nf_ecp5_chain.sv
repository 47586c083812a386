// SPDX-License-Identifier: Apache-2.0
// Carry chain of ECP5, two bits a cell (CCU2C), from the lowest bit on, without carry in.
// Combinational.
//
// Bit i has its own LUT4, INIT[16*i +: 16], with the index {d, c, b, a}. If the LUT4 is 1 the carry
// is propagated, else the carry out is INIT[16*i + {b, a}]; `sum` is the LUT4 XOR the carry in, so
// that a bit whose LUT4 is 0 shows the carry. No cell may have 0 for both INITs: abc9 (yosys 0.70)
// takes the sum of such a cell for a constant.

`default_nettype none

module nf_ecp5_chain #(
  parameter int                 BITS = 8,  // even
  parameter logic [16*BITS-1:0] INIT = '0
) (
  input  wire logic [BITS-1:0] a,   // input A of each LUT4
  input  wire logic [BITS-1:0] b,   // input B
  input  wire logic [BITS-1:0] c,   // input C
  input  wire logic [BITS-1:0] d,   // input D
  output logic [BITS-1:0]      sum  // sum bit of each step
);
  localparam int PAIRS = BITS / 2;

  if (BITS % 2 != 0) begin : g_bad_bits
    initial $fatal(1, "nf_ecp5_chain: BITS must be even");
  end
  for (genvar i = 0; i < PAIRS; i++) begin : g_bad_init
    if (INIT[32*i +: 32] == '0) begin : g_zero
      initial $fatal(1, "nf_ecp5_chain: a cell has 0 for both INITs");
    end
  end

  logic [PAIRS:0] carry;

  assign carry[0] = 1'b0;

  for (genvar i = 0; i < PAIRS; i++) begin : g_pair
    CCU2C #(
      .INIT0(INIT[32*i +: 16]), .INIT1(INIT[32*i+16 +: 16]),
      .INJECT1_0("NO"), .INJECT1_1("NO")
    ) u_pair (
      .CIN (carry[i]),
      .A0 (a[2*i]), .B0 (b[2*i]),
      .C0 (c[2*i]), .D0 (d[2*i]),
      .S0 (sum[2*i]),
      .A1 (a[2*i+1]), .B1 (b[2*i+1]),
      .C1 (c[2*i+1]), .D1 (d[2*i+1]),
      .S1 (sum[2*i+1]),
      .COUT (carry[i+1])
    );
  end

  logic unused_carry;
  assign unused_carry = carry[PAIRS];
endmodule

`default_nettype wire
