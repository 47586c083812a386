# SPDX-License-Identifier: Apache-2.0
"""The one error that bad captures, routes and plans raise; the capture hook raises it too."""

from nf_capture.errors import CaptureError, one_line

__all__ = ["CaptureError", "one_line"]
