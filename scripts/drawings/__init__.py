# SPDX-License-Identifier: Apache-2.0
"""Drawings and plots of the documents, each made from the sources, a run, or accepted figures."""
