# SPDX-License-Identifier: Apache-2.0
"""`attach` for Trainer of Hugging Face, Lightning and Accelerate; each module needs its library."""
