# SPDX-License-Identifier: Apache-2.0
"""A second implementation of the hardest blocks, in MyHDL: it simulates, and converts to Verilog

Each file is the twin of the RTL module of its name, with the same ports, written from the
specification in the way of the reference models: element by element, in whole numbers.
"""
