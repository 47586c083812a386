# SPDX-License-Identifier: Apache-2.0
"""CXL.mem over 68-byte flits: executable link spec; imports nothing else of models."""
