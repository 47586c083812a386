# SPDX-License-Identifier: Apache-2.0
"""Tests of the package on bench_wire, and of parts above ``link`` that need no simulator."""
