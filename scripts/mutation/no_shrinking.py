# SPDX-License-Identifier: Apache-2.0
"""Plug-in of pytest for mutants: hypothesis does not look for a smaller counterexample."""

from hypothesis import Phase, settings

settings.register_profile(
    "no-shrinking", phases=[one for one in Phase if one not in (Phase.shrink, Phase.explain)]
)
settings.load_profile("no-shrinking")
