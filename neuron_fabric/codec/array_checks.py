# SPDX-License-Identifier: Apache-2.0
"""Checks of the arrays and numbers that callers pass to the codec, the same for both engines.

`pack.c` writes where a pointer says, and numpy writes to a copy where an array is strided; so every
public function checks its arguments here before it calls an engine. Each fault is one ValueError:
the argument, what it must be, what it is.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

_ODD = (np.matrix, np.ma.MaskedArray)
"""Types that are reshaped, or written to, in another way than arrays."""


def check(
    name: str,
    array: Any,
    kind: DTypeLike,
    *shape: int | str,
    dense: bool = False,
    out: bool = False,
) -> None:
    """Check type, shape and layout of an array argument.

    Args:
        name: Name of the argument, for the message.
        array: Value of the argument.
        kind: Required dtype, in native byte order.
        shape: Required dimensions; a text stands for any size.
        dense: Whether it must be C-contiguous.
        out: Whether it is written to: it must be C-contiguous, aligned and writable.

    Raises:
        ValueError: It is something else; also a matrix or a masked array.
    """
    if isinstance(array, np.ndarray) and not isinstance(array, _ODD):
        has, sizes = array.flags, array.shape
        lacks = ["contiguous"] if (dense or out) and not has.c_contiguous else []
        if out and not has.carray:
            lacks += ["aligned"] * (not has.aligned) + ["writable"] * (not has.writeable)
        if not lacks and array.dtype == kind and len(sizes) == len(shape):
            for size, wanted in zip(sizes, shape, strict=True):
                if size != wanted and not isinstance(wanted, str):
                    break
            else:
                return
        found = [f"{array.dtype}{list(array.shape)}", *(f"not {flag}" for flag in lacks)]
    else:
        found = [type(array).__name__]
    want = [f"{np.dtype(kind)}[{', '.join(map(str, shape))}]"]
    want += ["contiguous"] * (dense or out) + ["aligned", "writable"] * out
    raise ValueError(f"{name} must be {', '.join(want)}, not {', '.join(found)}")


def check_apart(name: str, array: Any, *others: Any) -> None:
    """Check that an output array shares no memory with input arrays.

    Args:
        name: Name of the output argument, for the message.
        array: Output array.
        others: Input arrays.

    Raises:
        ValueError: The memory bounds of the output overlap those of an input; interleaved views are
            refused too.
    """
    if any(np.may_share_memory(array, other) for other in others):
        raise ValueError(f"{name} must have its own memory, not that of an input")


def check_float(name: str, value: Any) -> np.float32:
    """Return ``value`` converted to float32. Raises ValueError unless it is one number."""
    try:
        return np.float32(float(value))
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number, not {type(value).__name__}") from None


def check_number(name: str, value: Any, first: int, last: int | None = None) -> int:
    """Return ``value`` as an int. Raises ValueError unless it is an integer in first..last.

    ``last`` = None means no upper limit.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be an integer, not {type(value).__name__}") from None
    if number < first or (last is not None and number > last):
        wanted = f"{first} or more" if last is None else f"{first} to {last}"
        raise ValueError(f"{name} must be {wanted}, not {number}")
    return number
