# SPDX-License-Identifier: Apache-2.0
"""What reduces packed gradients: one interface, by default torch itself (`torch_reducer`)."""
