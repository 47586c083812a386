# SPDX-License-Identifier: Apache-2.0
"""Signal-level transport of the replay: the pyuvm environment drives the pins, with all
checkers.
"""
