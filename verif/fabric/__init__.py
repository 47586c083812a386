# SPDX-License-Identifier: Apache-2.0
"""Collectives over a pool of controllers at signal level: switch, streams, pool scoreboard."""
