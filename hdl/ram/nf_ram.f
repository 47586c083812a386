// Sources of a protected RAM alone (block-level bench), in compile order.
+incdir+hdl/common
hdl/pkg/nf_pkg.sv
hdl/pkg/nf_ram_pkg.sv
hdl/common/nf_fifo.sv
hdl/ram/nf_secded.sv
hdl/ram/nf_ram_code.sv
hdl/ram/nf_ram_guard.sv
hdl/ram/nf_data_fifo.sv
