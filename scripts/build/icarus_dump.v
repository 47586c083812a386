// SPDX-License-Identifier: Apache-2.0
module cocotb_iverilog_dump();
  reg [8*4096-1:0] path;
  reg [63:0] from_ns, for_ns;
  initial if ($value$plusargs("dumpfile_path=%s", path)) begin
    $dumpfile(path);
    if ($value$plusargs("dump_from_ns=%d", from_ns)) #(from_ns);
    $dumpvars(0, TOP);
    if ($value$plusargs("dump_for_ns=%d", for_ns)) begin
      #(for_ns) $dumpoff;
    end
  end
endmodule
