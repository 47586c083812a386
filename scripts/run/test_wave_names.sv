// SPDX-License-Identifier: Apache-2.0
module bench;
  logic clk = 0, rst_n = 0, clean = 0;
  wire silent, idle, valid, up;
  nf_link_init u_init (
    .clk, .rst_n, .any_clean(clean), .init_received(clean), .silent, .idle_request(idle),
    .param_valid(valid), .param_ready(clean), .link_up(up)
  );
  initial begin
    $dumpfile("waves.vcd");
    $dumpvars(0, bench);
    for (int edges = 0; edges < 24; edges++) begin
      #1 clk = !clk;
      #1 rst_n = edges > 4;
      clean = edges > 8;
    end
    $finish;
  end
endmodule
