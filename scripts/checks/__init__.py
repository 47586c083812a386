# SPDX-License-Identifier: Apache-2.0
"""Checks of the tree that `nf check` runs: imports, names, links, generated tables, pins."""
