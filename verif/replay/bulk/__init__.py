# SPDX-License-Identifier: Apache-2.0
"""Bulk transport of the replay: a C++ host drives whole blocks of lines, no Python code per
line.
"""
