# SPDX-License-Identifier: Apache-2.0
"""Virtual sequences, one file for each concept; every choice is drawn from the seed of the run."""
