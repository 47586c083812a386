# SPDX-License-Identifier: Apache-2.0
"""What is sent: one concept a file, every choice drawn from the seed of the run."""
