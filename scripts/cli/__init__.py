# SPDX-License-Identifier: Apache-2.0
"""Verbs of `nf`, one module each, with add_arguments(parser) and run(args) -> exit code."""
