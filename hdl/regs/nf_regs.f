// Sources of the register block alone (block-level bench), in compile order.
+incdir+hdl/common
hdl/pkg/nf_pkg.sv
hdl/pkg/nf_ram_pkg.sv
hdl/regs/nf_regs_pkg.sv
hdl/regs/nf_axil_slave.sv
hdl/regs/nf_counter.sv
hdl/regs/nf_ctrl_regs.sv
hdl/regs/nf_error_regs.sv
hdl/regs/nf_event_counters.sv
hdl/regs/nf_link_regs.sv
hdl/regs/nf_ras_regs.sv
hdl/regs/nf_reg_bus.sv
hdl/regs/nf_region_line.sv
hdl/regs/nf_region_regs.sv
hdl/regs/nf_regs.sv
