# SPDX-License-Identifier: Apache-2.0
"""Mutation at scale: mutants of all modules made from the parsed RTL, many in one build.

Each runs against the tests that see it, fastest killers first (`nf mutate --sample`).
"""
