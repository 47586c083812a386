# SPDX-License-Identifier: Apache-2.0
"""Mutation at scale: mutants of all modules from the parsed RTL, many in one build, each run against
the tests that cover its line, fastest killers first (`nf mutate --sample`)."""
