# SPDX-License-Identifier: Apache-2.0
"""Replay: captured gradients through the RTL at flit level, checked against the reducers."""
