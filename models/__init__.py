# SPDX-License-Identifier: Apache-2.0
"""Independent reference models, written from the specifications alone."""
