# SPDX-License-Identifier: Apache-2.0
"""The reducer server: a process in the device's place, for the ranks of a training (`nf serve`)."""
