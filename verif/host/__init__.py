# SPDX-License-Identifier: Apache-2.0
"""The C++ host of bulk replay, and the Python side of its interface."""
