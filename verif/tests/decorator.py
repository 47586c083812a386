# SPDX-License-Identifier: Apache-2.0
"""Decorator that registers pyuvm tests with cocotb, for tests that run one sequence or function.

A pyuvm test needs a class with phases, and a coroutine that cocotb can find. `nf_test` makes both
from one function: its name is the name of the test, its docstring the summary in `nf list`.
"""

import inspect
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import cocotb
from cocotb.regression import TestGenerator

from cocotbext.cxl.config import CxlConfig
from verif.env.base_test import NfBaseTest, run_negative, run_uvm
from verif.env.config import EnvConfig, Parts, Profile
from verif.sequences.base import NfSequence

ALL: tuple[Profile, ...] = tuple(Profile)

Configure = Callable[[EnvConfig], None]
Scenario = Callable[[Any], Coroutine[Any, Any, None]]


def pyuvm_class(
    name: str,
    work: type[NfSequence | NfBaseTest] | Scenario,
    *,
    base: type[NfBaseTest] = NfBaseTest,
    body: Scenario | None = None,
    configure: Configure | None = None,
    **options: Any,
) -> type[NfBaseTest]:
    """Return a new pyuvm test class.

    Args:
        name: Name of the class, which is the prefix of its figures.
        work: Scenario of the test: a sequence to run, a coroutine function that gets the test, or
            a test class that has its own scenario and becomes the base.
        base: Base of the new class, unless `work` is a test class.
        body: Coroutine function to run in place of the body of the sequence `work`, which it gets.
        configure: Changes to the configuration before the environment is built.
        options: Options of the sequence. Attributes of the class if `work` is no sequence.
    """
    attributes: dict[str, Any] = {}
    if isinstance(work, type) and issubclass(work, NfSequence):
        sequence, attributes["shows"] = work, options.pop("shows", base.shows)

        async def run_sequence(test: NfBaseTest) -> None:
            run = sequence(test.env, **options)
            await (run.start() if body is None else body(run))
            await run.drain()

        attributes["scenario"] = run_sequence
    elif isinstance(work, type):
        base, attributes = work, options
    else:
        attributes = {"scenario": work, **options}
    if configure is not None:
        change = configure

        def configure_both(test: NfBaseTest, cfg: EnvConfig) -> None:
            base.configure(test, cfg)
            change(cfg)

        attributes["configure"] = configure_both
    return type(name, (base,), attributes)


def nf_test(
    work: type[NfSequence | NfBaseTest] | None = None,
    *,
    profiles: Sequence[Profile] = (),
    fails: str = "",
    **options: Any,
) -> Callable[[Callable[..., Any]], TestGenerator]:
    """Return a decorator that registers a cocotb test with the name of the function.

    The function is empty but for its docstring if `work` has the scenario. Else it is a coroutine
    function, the scenario itself, and gets the test, or the sequence if `work` is one.
    `cocotb.parametrize` can be put above: the test finds the values of its parameters in
    `test.settings`.

    Args:
        work: Sequence to run, or test class.
        profiles: Traffic profiles to run with, one case each; empty: streaming, without cases.
        fails: Text of the finding that must end the run, if the test is a negative twin.
        options: Options of the sequence, attributes of the class, and `base`, `configure` and
            `shows` (see `pyuvm_class` and `NfBaseTest`).
    """

    def register(function: Callable[..., Any]) -> TestGenerator:
        name = f"{function.__name__.title().replace('_', '')}Test"
        if not inspect.iscoroutinefunction(function):
            assert work is not None, f"{function.__name__}: no sequence, no test class, no body"
            if issubclass(work, NfBaseTest) and not options:
                name = work.__name__  # its figures keep their names
            made = pyuvm_class(name, work, **options)
        elif work is not None and issubclass(work, NfSequence):
            made = pyuvm_class(name, work, body=function, **options)
        else:
            made = pyuvm_class(name, function, base=work or NfBaseTest, **options)

        async def run(_dut: Any, **settings: Any) -> None:
            if fails:
                await run_negative(made, fails, **settings)
            else:
                await run_uvm(made, **settings)

        for attribute in ("__name__", "__qualname__", "__module__", "__doc__"):
            setattr(run, attribute, getattr(function, attribute))
        test = cocotb.test(run)
        return cocotb.parametrize(profile=_named(profiles))(test) if profiles else test

    return register


def _named(profiles: Sequence[Profile]) -> list[cocotb.Param]:
    """Return parameters of cocotb for the profiles, named as users write them."""
    return [cocotb.Param(value=profile.value, name=profile.value) for profile in profiles]


def host_link(**settings: Any) -> Configure:
    """Return a change of the configuration that sets fields of `LinkConfig` of the host's link.

    It replaces the choices of the traffic profile, and every other change of `shape_link`.
    """

    def shape(config: CxlConfig) -> None:
        for name, value in settings.items():
            setattr(config.link, name, value)

    def configure(cfg: EnvConfig) -> None:
        cfg.shape_link = shape

    return configure


def faulty(**parts: Any) -> Configure:
    """Return a change of the configuration for a negative twin: replaced classes of `Parts`.

    ``parts`` are the faulty classes by name of the part.
    """

    def configure(cfg: EnvConfig) -> None:
        cfg.parts = Parts(**parts)

    return configure
