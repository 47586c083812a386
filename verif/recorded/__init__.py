# SPDX-License-Identifier: Apache-2.0
"""Recorded runs: replays of the events of real simulations into the checkers."""
