# SPDX-License-Identifier: Apache-2.0
"""Base of every pyuvm test of the controller, and the coroutine that runs one from a cocotb test.

The base does what no test may forget: clock and reset, the end of test (drain, reads of all
registers), the check that no finding is left, the stop at the first finding, and the watchdog for
requests without a response.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import First
from cocotb.utils import get_sim_time
from pyuvm import ConfigDB, uvm_root, uvm_test

from cocotbext.cxl.errors import CxlError
from cocotbext.cxl.wire.messages import M2SReq, ReqOp
from models.modes import Mode
from models.regions import VIEW_SELECTORS
from verif.coverage.cover_model import FUNCTIONAL, CoverModel
from verif.env.config import CLOCK_NS, EnvConfig, Profile
from verif.env.env import NfEnv
from verif.scoreboard.finding import CheckFailed
from verif.scoreboard.operations import describe

# Metrics of a test, written to the file that the runner reads.


def wanted() -> bool:
    """Return whether the runner wants metrics, in the file that NF_METRICS names."""
    return bool(os.environ.get("NF_METRICS"))


def leave(model: CoverModel | None, figures: Mapping[str, object]) -> None:
    """Merge metrics of a test into the file of NF_METRICS; do nothing without it.

    Args:
        model: Functional coverage, to which the hits of earlier tests of this process are added;
            None adds no hits.
        figures: Values by name. Those named `cycles` are added to earlier ones of the same name,
            since a test with parameters runs several times; others replace them.
    """
    if not wanted():
        return
    path = Path(os.environ["NF_METRICS"])
    old = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if model is not None:
        model.add(old.get(FUNCTIONAL, {}))
        old[FUNCTIONAL] = model.hits()
    for name, value in figures.items():
        counts = isinstance(value, int) and name.rpartition(".")[2] == "cycles"
        old[name] = old.get(name, 0) + value if counts else value
    path.write_text(json.dumps(old, indent=1), encoding="utf-8")


PROFILES = [cocotb.Param(value=profile.value, name=profile.value) for profile in Profile]
_SETTINGS = "settings"


class NfBaseTest(uvm_test):
    """Base class of tests of the controller; a test overrides `configure` and `scenario`.

    Attributes:
        found: Findings of the last run.
        reset_clocks: Length of the reset in cycles.
        shows: Name of the test in [shown_by] of the coverage plan: register fields that must
            change.
    """

    found: ClassVar[Sequence[str]] = []
    reset_clocks = 5
    shows: ClassVar[str] = ""
    """Name of the test in `[shown_by]` of the coverage plan: fields that must change here."""

    def configure(self, cfg: EnvConfig) -> None:
        """Change the configuration before the environment is built; by default nothing."""

    def environments(self) -> list[NfEnv]:
        """Return the environment of each simulated controller, before it is built."""
        env = NfEnv("env", self)
        env.dut, env.cfg = self.dut, self.cfg
        return [env]

    async def scenario(self) -> None:
        """Drive the stimulus; called once the link is up. Tests override it."""
        raise NotImplementedError

    def errors(self) -> Sequence[str]:
        """Return the findings of all checkers at the end of the test."""
        return [text for env in self.envs for text in env.errors()]

    # -- phases -------------------------------------------------------------------------------
    def build_phase(self) -> None:
        self.dut: Any = cocotb.top
        settings: dict[str, Any] = ConfigDB().get(None, "", _SETTINGS)
        self.settings = settings
        self.expects_failure = bool(settings.get("expects_failure"))
        self.cfg = EnvConfig(profile=Profile(settings["profile"]), seed=settings["seed"])
        self.configure(self.cfg)
        self.envs = self.environments()
        self.env = self.envs[0]
        self.metrics: dict[str, Any] = {}
        self.began_ns = get_sim_time("ns")
        self.finished = False
        NfBaseTest.found = []

    async def run_phase(self) -> None:
        self.raise_objection()
        try:
            await self._guarded()
        finally:
            self.drop_objection()

    def check_phase(self) -> None:
        errors = self.errors()
        if self.finished and not (errors or self.expects_failure):
            errors = self.env.coverage.fields.unseen(self.shows)
        for env in self.envs:
            self.logger.info("%s: %s", self._label(), env.scoreboard.summary())
        self._export()
        if not self.finished and not errors:
            errors = ["the scenario did not run to its end"]
        if errors:
            raise CheckFailed(errors, self._label())

    # -- run ----------------------------------------------------------------------------------
    async def _guarded(self) -> None:
        """Run the test until its end, the first finding of the scoreboard, or a stuck request.

        Raises:
            CheckFailed: The scoreboard has a finding, unless the test expects a failure.
        """
        body = cocotb.start_soon(self._whole())
        watchdogs = [cocotb.start_soon(self._watchdog(env)) for env in self.envs]
        await First(body.complete, *(env.failed.wait() for env in self.envs))
        for watchdog in watchdogs:
            watchdog.cancel()
        errors = [text for env in self.envs for text in env.scoreboard.errors]
        if errors:
            # The scoreboard's first finding is the cause; whatever else is wrong follows from it.
            body.cancel()
            NfBaseTest.found = errors
            if self.expects_failure:
                return
            raise CheckFailed(errors, self._label())
        try:
            body.result()
        except (CxlError, AssertionError) as error:
            if not self.expects_failure:
                raise
            NfBaseTest.found = [str(error)]

    async def _whole(self) -> None:
        await self.start()
        for name in self.env.coverage.fields.shown(self.shows):
            await self.env.registers.read(name)  # its value after reset, before it changes
        await self.scenario()
        await self.finish()
        self.finished = True

    async def start(self) -> None:
        """Start the clock, apply the reset and bring the link up."""
        dut = self.dut
        dut.rst_n.value = 0
        self.clock = Clock(dut.clk, CLOCK_NS, "ns", impl="gpi")
        self.clock.start(start_high=False)
        await self.env.clocks(self.reset_clocks)
        dut.rst_n.value = 1
        for env in self.envs:
            await env.host.link_up()

    async def finish(self) -> None:
        """Wait until device and memory are idle, then read all registers, so that they are
        compared.
        """
        for env in self.envs:
            await env.host.drain()
            await env.clocks(20)
            while not env.mem.idle:
                await env.clocks(10)
            await self._look_for_leaks(env)
            await self._read_views(env)
            await env.clocks(20)
            await env.registers.read_all()

    async def _look_for_leaks(self, env: NfEnv) -> None:
        """Send a lone request with a threshold of two for DevLoad, which must be LIGHT.

        It is not if the device still counts a transaction that was answered.
        """
        await env.registers.write("DEVLOAD_THRESHOLD", 2)
        await env.host.call(M2SReq(ReqOp.MEM_INV, 0, 0))

    async def _read_views(self, env: NfEnv) -> None:
        """Read STATUS and the lines of each worker through the window of every region, to compare
        them.

        The comparison is exact, because the device is quiescent.
        """
        for region in range(env.cfg.hw.regions):
            config = env.scoreboard.model.config(region)
            if config is None or config.mode is Mode.IDENTITY or not config.ld_mask:
                continue
            ldid = (config.ld_mask & -config.ld_mask).bit_length() - 1  # the first that may read
            for selector in VIEW_SELECTORS:
                read = M2SReq(ReqOp.MEM_RD, 0, config.address(selector, 0), ldid=ldid)
                await env.host.issue(read)
        await env.host.drain()

    async def _watchdog(self, env: NfEnv) -> None:
        """Report a finding if the oldest request gets no response for `stuck_clocks` cycles."""
        scoreboard = env.scoreboard
        seen, oldest = -1, None
        while True:
            await env.clocks(self.cfg.stuck_clocks)
            now = scoreboard.oldest()
            if now is not None and now is oldest and scoreboard.responses == seen:
                scoreboard.error(
                    f"STUCK: no response for {self.cfg.stuck_clocks} clocks, "
                    f"{scoreboard.waiting} waiting",
                    f"scoreboard, {scoreboard.mode_of(now.access)}: answer",
                    f"first: {describe(now.msg)}",
                )
            seen, oldest = scoreboard.responses, now

    def _label(self) -> str:
        """Return seed and profile as text; the seed is that of `nf run --seed`."""
        seed = os.environ.get("COCOTB_RANDOM_SEED", self.cfg.seed)
        return f"seed {seed}, profile {self.cfg.profile}"

    # -- results ------------------------------------------------------------------------------
    def figure(self, name: str, value: object) -> None:
        """Record a measured value for the log and the runner's report.

        Args:
            name: Name of the value; a rate ("_per_") must be recorded by `rate`.
            value: Measured value.
        """
        assert "_per_" not in name, f"{name} is a rate: it says nothing without a memory latency"
        self._note(name, value)

    def _note(self, name: str, value: object) -> None:
        self.metrics[name] = value
        self.logger.info("figure: %s = %s", name, value)

    def rate(self, name: str, value: float) -> None:
        """Record a measured rate together with the memory latency, in cycles, at which it was
        measured.
        """
        for end, clocks in zip(("least", "most"), self.cfg.mem.latency, strict=True):
            self.figure(f"memory_latency_clocks_{end}", clocks)
        self._note(name, value)

    def _export(self) -> None:
        if not wanted():
            return
        label = f"{type(self).__name__}-{self.cfg.profile}"
        # A fault of the bench covers nothing of the design.
        model = None if self.expects_failure else self.env.coverage.finished(self.env.dut)
        if model is not None:
            for env in self.envs[1:]:
                model.add(env.coverage.finished(env.dut).hits())
        boards = [env.scoreboard for env in self.envs]
        figures = {f"{label}.{name}": value for name, value in self.metrics.items()}
        figures[f"{label}.requests"] = sum(one.requests for one in boards)
        figures[f"{label}.judged"] = sum(one.judge.judged for one in boards)
        figures[f"{label}.cycles"] = round((get_sim_time("ns") - self.began_ns) / CLOCK_NS)
        leave(model, figures)


async def run_negative(
    test: type[NfBaseTest], expected: str, profile: str = "streaming", **settings: Any
) -> None:
    """Run a test that has a fault built in, and check that a checker reports it.

    Args:
        test: Test class.
        expected: Text that one of the findings must contain.
        profile: Traffic profile.
        settings: Values for `test.settings`.

    Raises:
        AssertionError: No checker reported the fault, or only others did.
    """
    text = ""
    try:
        await run_uvm(test, profile, expects_failure=True, **settings)
    except AssertionError as found:
        text = str(found)
    # A stop at the first finding leaves requests open: other checkers then complain as well.
    text = "\n".join([*test.found, text])
    assert text.strip(), f"no checker reported the fault ({test.__doc__})"
    other = f"caught, but not by the checker of this fault: {text[:600]}"
    assert expected in text, other
    assert "time-out: no " not in text, other


async def run_uvm(
    test: type[NfBaseTest], profile: str = Profile.STREAMING.value, **settings: Any
) -> None:
    """Run a pyuvm test class; it fails by an exception.

    Args:
        test: Test class.
        profile: Traffic profile.
        settings: Values for `test.settings`.
    """
    values = {"profile": profile, "seed": cocotb.RANDOM_SEED, **settings}
    ConfigDB().set(None, "*", _SETTINGS, values)
    await uvm_root().run_test(test, keep_set={ConfigDB})
