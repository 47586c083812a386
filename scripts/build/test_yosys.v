// SPDX-License-Identifier: Apache-2.0
module two_steps (input wire clk, input wire [15:0] a, output reg z);
  reg [3:0] q;
  always @(posedge clk) begin
    q <= {&a[15:12], &a[11:8], &a[7:4], &a[3:0]};
    z <= ^q;
  end
endmodule
