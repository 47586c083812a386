# SPDX-License-Identifier: Apache-2.0
"""Subcommands of `nf collectives`."""
