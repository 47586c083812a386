# SPDX-License-Identifier: Apache-2.0
"""Simulations for proofs."""
