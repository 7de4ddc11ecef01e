"""A planner that drives under the commands of a slower VLA; too old a command is not used."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from drive.contracts import I64, DrivingCommand, Observation, Plan, UserError
from drive.model.network import NO_COMMAND
from drive.model.policy import PlannerPolicy
from drive.model.vla.speaker import CommandReply, Speaker

OWN_COMMAND = "own_command"
_JUMP_MPS2 = 15.0
_JUMP_MPS = 0.5


@dataclass(frozen=True)
class _Answer:
    """A command, when it was asked for, and from when on it can be used (clock of the observations)."""

    command: DrivingCommand
    asked_us: int
    ready_us: int


@dataclass(frozen=True)
class _Told:
    """The command for one plan: None = the planner's own; its age; and how long the VLA took just now."""

    command: DrivingCommand | None
    age_s: float
    asking_ms: float


@dataclass
class Usage:
    """Plans by where their command came from: the VLA, or the planner (none there, or too old)."""

    told: int = 0
    absent: int = 0
    too_old: int = 0


class VlaPolicy:
    """Asks every `pace.period_s`; a command is usable after `pace.delay_s` and up to `pace.max_age_s`.

    Time is that of the observations, so that the same drive gives the same plans on any machine; `delay_s`
    stands for the VLA's latency. A malformed reply is no command: the last one ages. Several observations in
    one call are unrelated moments: each is asked about, and planned for with a fresh command. One observation
    continues the one before unless time or speed jumps, which means another drive.
    """

    needs_images = True

    def __init__(self, planner: PlannerPolicy, speaker: Speaker, name: str) -> None:
        if not planner.network.config.use_command:
            raise UserError(f"{planner.name}: reads no driving command; a VLA can do nothing for it")
        self.name, self.planner, self.speaker = name, planner, speaker
        self.pace = speaker.config.pace
        self.usage = Usage()
        self._forget()

    def _forget(self) -> None:
        self._last: Observation | None = None
        self._asked_us: int | None = None
        self._coming: _Answer | None = None
        self._held: _Answer | None = None

    def plan(self, observations: Sequence[Observation], seed: int) -> list[Plan]:
        """Plan for each observation; `command_age_s` of a plan says how old its command is.

        Raises:
            UserError: an observation lacks a camera of the planner or of the VLA.
        """
        if len(observations) == 1:
            told = [self._next(observations[0])]
        else:
            told = [self._fresh(observation) for observation in observations]
        plans = self.planner.plan(observations, seed, _rows([item.command for item in told]))
        return [_labelled(plan, item) for plan, item in zip(plans, told, strict=True)]

    def _fresh(self, observation: Observation) -> _Told:
        reply = self.speaker.command(observation)
        self._count(reply.command is not None, False)
        return _Told(reply.command, 0.0, reply.latency_ms)

    def _next(self, observation: Observation) -> _Told:
        now = observation.t_us
        if not self._continues(observation):
            self._forget()
        self._last = observation
        start = time.perf_counter()
        self._deliver(now)
        waited_us = None if self._asked_us is None else now - self._asked_us
        if self._coming is None and (waited_us is None or waited_us >= _us(self.pace.period_s)):
            self._asked_us = now
            self._coming = self._answer(self.speaker.command(observation), now)
            self._deliver(now)
        asking_ms = 1e3 * (time.perf_counter() - start)
        age_us = now - self._held.asked_us if self._held is not None else 0
        too_old = age_us > _us(self.pace.max_age_s)
        usable = self._held is not None and not too_old
        self._count(usable, too_old)
        if self._held is None or too_old:
            return _Told(None, 0.0, asking_ms)
        return _Told(self._held.command, age_us / 1e6, asking_ms)

    def _deliver(self, now: int) -> None:
        if self._coming is not None and self._coming.ready_us <= now:
            self._held, self._coming = self._coming, None

    def _answer(self, reply: CommandReply, now: int) -> _Answer | None:
        if reply.command is None:
            return None
        return _Answer(reply.command, now, now + _us(self.pace.delay_s))

    def _continues(self, observation: Observation) -> bool:
        if self._last is None:
            return False
        passed_us = observation.t_us - self._last.t_us
        jump = abs(observation.speed_mps - self._last.speed_mps) - _JUMP_MPS2 * passed_us * 1e-6
        return 0 < passed_us <= _us(self.pace.max_age_s) and jump <= _JUMP_MPS

    def _count(self, told: bool, too_old: bool) -> None:
        self.usage.told += told
        self.usage.too_old += too_old
        self.usage.absent += not told and not too_old


def _rows(commands: Sequence[DrivingCommand | None]) -> I64:
    """Commands as int64 (B, 2), rows of NO_COMMAND where the planner is to emit its own."""
    told = np.full((len(commands), 2), NO_COMMAND, np.int64)
    for row, command in zip(told, commands, strict=True):
        if command is not None:
            row[:] = command.lateral, command.longitudinal
    return told


def _us(seconds: float) -> int:
    return round(seconds * 1e6)


def _labelled(plan: Plan, told: _Told) -> Plan:
    """The plan with the VLA's whole command, its age, or the mark that the planner commanded itself."""
    latency = {**plan.latency_ms, "vla": told.asking_ms}
    if told.command is None:
        return replace(plan, flags=(*plan.flags, OWN_COMMAND), latency_ms=latency)
    if plan.command is None:  # a fallback carries out nobody's command
        return replace(plan, latency_ms=latency)
    command = replace(told.command, reason=plan.command.reason)
    return replace(plan, command=command, command_age_s=told.age_s, latency_ms=latency)
