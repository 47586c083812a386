# SPDX-License-Identifier: Apache-2.0
"""Version of the package (semantic versioning)."""

VERSION = "0.1.0"
