# SPDX-License-Identifier: Apache-2.0
"""Waves of failed runs: one FST file for both simulators, and its view for a wave viewer."""
