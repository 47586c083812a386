// Sources of the FP32 gather alone (block-level bench), in compile order.
+incdir+hdl/common
hdl/pkg/nf_pkg.sv
hdl/pkg/nf_core_pkg.sv
hdl/pkg/nf_fp32_pkg.sv
hdl/common/nf_fifo.sv
hdl/fp32/nf_fp32_add.sv
hdl/fp32/nf_fp32_gather.sv
