# SPDX-License-Identifier: Apache-2.0
"""The pyuvm environment: configuration, base test, host and register facades."""
