# SPDX-License-Identifier: Apache-2.0
"""One module a verb of `nf`; each has add_arguments(parser) and run(args) -> exit code."""
