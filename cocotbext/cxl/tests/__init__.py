# SPDX-License-Identifier: Apache-2.0
"""Tests of the package on bench_wire, and of what needs no simulator above ``link``."""
