verif/cxl/bench_wire.sv
