cocotbext/cxl/agent/bench_wire.sv
