# SPDX-License-Identifier: Apache-2.0
"""Reports of runs: terminal summary, JUnit XML, JSON, HTML pages, UCIS XML of coverage."""
