# SPDX-License-Identifier: Apache-2.0
"""Functional coverage: points and bins in plain Python, and their sampling."""
