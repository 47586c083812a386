# SPDX-License-Identifier: Apache-2.0
"""Second implementation of the hardest blocks, in MyHDL: it simulates and converts to Verilog.

Each file is the twin of the RTL module with its name and ports, written from the specification in
the style of the reference models: element by element, in integers.
"""
