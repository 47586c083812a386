# SPDX-License-Identifier: Apache-2.0
"""Commands that run the schedules of collectives on models and RTL."""
