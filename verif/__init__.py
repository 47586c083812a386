# SPDX-License-Identifier: Apache-2.0
"""Verification environment (cocotb, pyuvm)."""
