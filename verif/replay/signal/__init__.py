# SPDX-License-Identifier: Apache-2.0
"""Signal-level transport: the pyuvm environment drives the pins, monitors and scoreboard watch."""
