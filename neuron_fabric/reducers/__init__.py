# SPDX-License-Identifier: Apache-2.0
"""Reducers, which reduce packed gradients over the ranks: by torch, or by a reducer server."""
