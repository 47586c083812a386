# SPDX-License-Identifier: Apache-2.0
"""Constrained-random scenarios: drawn by weights, plain data, played through the environment."""
