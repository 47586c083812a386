// SPDX-License-Identifier: Apache-2.0
// Names of codes and states in waves.
//
// Icarus dumps an enum as bare bits, and so does Verilator in VCD. NF_WAVE_NAME adds a signal
// `label` that holds the name of `value` as ASCII text, by a function of nf_wave_pkg; show it as
// ASCII (GTKWave: Data Format, ASCII; Surfer: Format, ASCII). Nothing reads it, so Verilator drops
// it where no waves are written, and synthesis does not see it.
`ifndef NF_WAVE_SVH
`define NF_WAVE_SVH

`ifdef SYNTHESIS
`define NF_WAVE_NAME(label, value, name_of)
`else
`define NF_WAVE_NAME(label, value, name_of) \
  /* verilator lint_off UNUSEDSIGNAL */ \
  logic [nf_wave_pkg::NAME_W-1:0] label; \
  assign label = nf_wave_pkg::name_of(value); \
  /* verilator lint_on UNUSEDSIGNAL */
`endif

`endif
