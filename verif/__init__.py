# SPDX-License-Identifier: Apache-2.0
"""Verification environment of the controller (cocotb, pyuvm)."""
