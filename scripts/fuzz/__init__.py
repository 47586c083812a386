# SPDX-License-Identifier: Apache-2.0
"""Fuzz cases of bad input, faults and hostile use, each a call of `nf` in a separate folder.

`test_files.py`, `test_words.py` and `test_faults.py` hold the groups of cases as pytest functions,
`fuzz_case.py` runs and judges a case, `case_files.py` writes its files, and `odd_values.yaml` holds
the odd values. `nf fuzz` runs them; `conftest.py` draws and selects.
"""
