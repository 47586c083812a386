# SPDX-License-Identifier: Apache-2.0
"""Base of the states of this package's DDP communication hooks; needs torch.

The law: whatever torch allows on a DistributedDataParallel model with a hook of torch is allowed
with a hook of ours. Copying a model, or saving it, copies all its attributes, among them torch's
list of hooks with their states; the copy itself has no hook registered. So nothing of ours stays in
a model's attributes: a copy is a plain model, to which another `attach` may be made, and a saved
one is loaded without this package. A hook of forward passes has to stay there until it removes
itself; its copy does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from typing import Any
from weakref import WeakKeyDictionary, finalize

import torch
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric.hook.attach_checks import end, second_hook


class HookState:
    """Base of the state of a communication hook, which is copied and pickled as None.

    Threads, sockets and open files in it cannot be copied.
    """

    def __reduce__(self) -> tuple[type, tuple[()]]:
        """Copy and pickle as None."""
        return type(None), ()

    def release(self) -> None:
        """Drop references to this object from elsewhere; called once its model is gone."""


class ForwardHook:
    """Hook of a module's forward passes; a copied or unpickled one does nothing.

    The copy is a function of the standard library, so that loading a model does not need this
    package.
    """

    def __init__(self, action: Callable[..., None]) -> None:
        """Set the action, which is called with the arguments of a hook of torch."""
        self._action = action

    def __call__(self, *args: Any) -> None:
        """Call the action with the arguments that torch passes to the hook."""
        self._action(*args)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle as a function that accepts any arguments and returns None."""
        return getattr, (nullcontext(), "__exit__")


def then_once(
    future: torch.futures.Future[torch.Tensor],
    action: Callable[[torch.futures.Future[torch.Tensor]], torch.Tensor],
) -> torch.futures.Future[torch.Tensor]:
    """Return ``future.then(action)``, which drops the action before its future is complete.

    An action may run on a thread of gloo, and holds the state of a hook and so the process group.
    If the training ends meanwhile, that thread drops the last reference, destroys the group, waits
    for itself, and aborts the process.
    """
    held = [action]
    return future.then(lambda done: held.pop()(done))


_STATES: WeakKeyDictionary[Any, HookState] = WeakKeyDictionary()
_register = DistributedDataParallel.register_comm_hook


@wraps(_register)
def _register_comm_hook(self: Any, state: object, hook: Any) -> None:
    if self in _STATES:
        end(second_hook(str(getattr(hook, "__name__", hook))), self.process_group)
    _register(self, state, hook)
    if isinstance(state, HookState):
        self._comm_hooks.pop()  # read by the python_reducer alone, which is refused
        _STATES[self] = state
        finalize(self, state.release).atexit = False


# In the class: an attribute of the model would be copied with it. Torch itself answers a second
# registration by a traceback from every rank.
DistributedDataParallel.register_comm_hook = _register_comm_hook
