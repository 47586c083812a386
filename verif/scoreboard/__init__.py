# SPDX-License-Identifier: Apache-2.0
"""Scoreboard: responses against the device model, quiescence, linearization, registers."""
