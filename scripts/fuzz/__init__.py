# SPDX-License-Identifier: Apache-2.0
"""Generated cases of bad input, faults and hostile use, each a call of `nf` in a folder of its own.

`cases/*.yaml` holds the groups of cases: how the folder is set up, the command, and what may come
out. `table.py` makes cases of them, `setup.py` knows the steps of a set-up, `odd_values.yaml` holds
the odd values, and `attempt.py` runs a case and judges it.
"""
