# SPDX-License-Identifier: Apache-2.0
"""Reducers of packed gradients with one interface."""
