# SPDX-License-Identifier: Apache-2.0
"""cocotb tests; each runs a pyuvm test class, most of them in three traffic profiles."""
