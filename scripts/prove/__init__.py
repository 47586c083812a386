# SPDX-License-Identifier: Apache-2.0
"""Proves properties of the RTL: what `nf prove` does."""
