# SPDX-License-Identifier: Apache-2.0
"""Simulations of counterexamples that formal proofs have found."""
