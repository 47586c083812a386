# SPDX-License-Identifier: Apache-2.0
"""Bulk transport of the replay: whole blocks of lines through the device, no Python per line."""
