// Modules that have a MyHDL twin, for a bench beside their twins (a build with both), in compile order.
+incdir+hdl/common
hdl/pkg/nf_pkg.sv
hdl/link/nf_link_pkg.sv
hdl/engine/nf_accumulate.sv
hdl/engine/nf_vote_steps.sv
hdl/engine/nf_vote.sv
hdl/engine/nf_sum.sv
hdl/fp32/nf_fp32_add.sv
hdl/link/nf_crc16.sv
hdl/link/nf_link_drs_queue.sv
hdl/link/nf_link_tx_pack.sv
verif/twin/nf_twin_pairs.sv
