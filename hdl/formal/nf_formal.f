// SPDX-License-Identifier: Apache-2.0
// The design and the wrappers that its proofs are about; paths from the repository root.
+incdir+hdl/formal
-f hdl/nf_controller.f
hdl/formal/fv_accumulate.sv
hdl/formal/fv_axi_read.sv
hdl/formal/fv_axi_write.sv
hdl/formal/fv_axil_slave.sv
hdl/formal/fv_counter.sv
hdl/formal/fv_crc16.sv
hdl/formal/fv_credit_pool.sv
hdl/formal/fv_credit_return.sv
hdl/formal/fv_drs_queue.sv
hdl/formal/fv_fifo.sv
hdl/formal/fv_fp32_add.sv
hdl/formal/fv_line_state.sv
hdl/formal/fv_link_ack.sv
hdl/formal/fv_link_init.sv
hdl/formal/fv_link_lrsm.sv
hdl/formal/fv_ndr_queue.sv
hdl/formal/fv_park.sv
hdl/formal/fv_plain.sv
hdl/formal/fv_req_queue.sv
hdl/formal/fv_retry_buffer.sv
hdl/formal/fv_retry_seq.sv
hdl/formal/fv_round_robin.sv
hdl/formal/fv_secded.sv
hdl/formal/fv_slot_count.sv
hdl/formal/fv_slot_table.sv
hdl/formal/fv_state_area.sv
hdl/formal/fv_sum.sv
hdl/formal/fv_twin_accumulate.sv
hdl/formal/fv_twin_crc16.sv
hdl/formal/fv_twin_fp32_add.sv
hdl/formal/fv_twin_sum.sv
hdl/formal/fv_twin_tx_pack.sv
hdl/formal/fv_twin_vote.sv
hdl/formal/fv_vote.sv
