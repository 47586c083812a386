# SPDX-License-Identifier: Apache-2.0
"""The `nf` command line: set-up, builds, runs, checks and reports."""
