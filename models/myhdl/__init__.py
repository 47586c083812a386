# SPDX-License-Identifier: Apache-2.0
"""MyHDL twins: second implementations of RTL modules, which simulate and convert to Verilog.

Each file nf_*.py is the twin of the RTL module with its name and ports, written from the
specification in the style of the reference models: element by element, in integers.
"""
