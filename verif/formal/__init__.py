# SPDX-License-Identifier: Apache-2.0
"""What the simulators do for proofs."""
