# SPDX-License-Identifier: Apache-2.0
"""Scenarios whose transcripts `test_recorded` compares with recorded ones."""
