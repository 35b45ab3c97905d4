"""How many calls an endpoint can take, learned while calling it: the arithmetic, without clock or network.

`HOPGRAPH_LLM_CONCURRENCY=auto` is this. What a server says counts first; what it shows is the rest:

- vLLM reports how many requests run and how many wait. The limit follows: as many as run, and a quarter more that wait,
  so that a slot that becomes free is filled at once. llama.cpp's server reports its slots.
- Refusals (429, 503) cut the limit to what was accepted, at most by half at a time, and it stays there; higher values
  are tried after 30 s, then ever less often: additive increase, multiplicative decrease (Chiu and Jain, "Analysis of
  the Increase and Decrease Algorithms for Congestion Avoidance", 1989) with a memory, as in CUBIC (RFC 9438).
- Others are measured: slow start, which doubles the limit (RFC 5681) until replies show delay (RFC 9406, HyStart++),
  then hill climbing on throughput, as in the .NET thread pool (Hellerstein, Morrison and Eilebrecht, "Optimizing
  Concurrency Levels in the .NET ThreadPool", FeBID 2008). Throughput is calls in flight divided by the mean latency
  (Little's law), over as many replies as there are calls in flight: neither one slow reply nor replies that are
  answered at the same moment are taken for congestion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

__all__ = ["MAX_LIMIT", "OPENING", "OPENING_PAUSE", "AdaptiveLimit", "Attempt", "FixedLimit"]

OPENING = (16, 32, 64)
"""The first limits of an endpoint that nothing is known of, `OPENING_PAUSE` apart: one that refuses does so at once."""
OPENING_PAUSE = 0.1
MAX_LIMIT = 1024
LONGEST_PAUSE = 30.0
"""Seconds that a `Retry-After` stops all calls at most."""
_REFUSED_PAUSE, _LONGEST_REFUSED_PAUSE = 30.0, 480.0
"""Seconds after a refusal until a higher limit is tried: at first, and at most."""
_SHORT_REFUSED_PAUSE = 5.0
"""The same where a server counts requests a second: the pause that it asks for is what keeps to its ration."""
_DOUBLING, _UP, _DOWN, _FAR_DOWN = 2.0, 1.25, 0.8, 0.5
"""Factors by which the limit is changed for a trial."""
_CUT = 0.7
"""Factor that refusals cut the limit by at most, until they are seen again."""
_SLIGHT_CUT = 0.9
_GAIN = 0.2
"""Share of the change in calls by which throughput must grow with them."""
_SAME = 0.95
"""Share of the throughput that a lower limit must keep."""
_FEWEST_REPLIES = 32
_HELD, _LONGEST_HELD = 4, 32
"""Windows between two trials: at first, and at most."""
_SLOWEST = 3.0
"""How many times the lowest latency seen a higher limit may cost: several clients would outbid each other without."""


@dataclass(slots=True)
class Attempt:
    """A request that was sent."""

    at: float
    epoch: int
    """Changes with the limit: what was sent before says nothing of the new one."""
    number: int
    open: bool = True


class FixedLimit:
    """A limit that stays as it is.

    Args:
        limit: Calls in flight at most.
    """

    paused_until = 0.0
    informed = True
    """Nothing has to be asked of the server."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.in_flight = 0

    def sent(self, now: float) -> Attempt:
        """A request goes out."""
        self.in_flight += 1
        return Attempt(now, 0, 0)

    def replied(self, attempt: Attempt, now: float) -> None:
        """It was answered."""
        self._end(attempt)

    def refused(self, attempt: Attempt, now: float, seconds: float = 0.0) -> None:
        """The server is too busy for it."""
        self._end(attempt)

    def ended(self, attempt: Attempt) -> None:
        """It ended in a way that says nothing: cancelled, a bad request, no connection."""
        self._end(attempt)

    def _end(self, attempt: Attempt) -> None:
        attempt.open = False
        self.in_flight -= 1

    def opened(self) -> bool:
        """Raise the limit because nothing was refused for `OPENING_PAUSE`; False if there is no more to raise."""
        return False


class _Reply(NamedTuple):
    number: int
    seconds: float
    in_flight: int


class AdaptiveLimit(FixedLimit):
    """A limit that follows what the endpoint can take. All times are seconds of one clock."""

    def __init__(self) -> None:
        super().__init__(OPENING[0])
        self.informed = False
        self.paused_until = 0.0
        self._phase: Literal["opening", "start", "up", "down", "hold"] = "opening"
        self._epoch = self._numbers = 0
        self._window: list[_Reply] = []
        self._accepted = self.limit
        """The limit that a trial goes back to."""
        self._throughput: float | None = None
        """Calls a second at that limit."""
        self._lowest: float | None = None
        """Mean seconds of a reply in the fastest window."""
        self._held, self._hold_for, self._go_up = 0, _HELD, True
        self._step = _DOUBLING
        self._floor = 1
        self._refused_pause, self._no_higher_before = _REFUSED_PAUSE, 0.0
        self._pause_began = self._pause = 0.0
        self._rationed_by_time = False
        self._mistrusted = 0

    def sent(self, now: float) -> Attempt:
        """A request goes out."""
        self.in_flight += 1
        self._numbers += 1
        return Attempt(now, self._epoch, self._numbers)

    @property
    def settled(self) -> bool:
        """Whether the first search for the limit is over."""
        return self._phase == "hold"

    def opened(self) -> bool:
        """Raise the limit because nothing was refused for `OPENING_PAUSE`; False if there is no more to raise."""
        if self.informed or self._phase != "opening" or self.limit == OPENING[-1]:
            return False
        self._accepted = self.limit = next(limit for limit in OPENING if limit > self.limit)
        return True

    def replied(self, attempt: Attempt, now: float) -> None:
        """It was answered."""
        if attempt.epoch == self._epoch and not self.informed:
            self._window.append(_Reply(attempt.number, now - attempt.at, self.in_flight))
            if len(self._window) >= self._window_size():
                replies, self._window = sorted(self._window), []
                self._judge(replies, now)
        self._end(attempt)

    def refused(self, attempt: Attempt, now: float, seconds: float = 0.0) -> None:
        """The server is too busy for it.

        Args:
            attempt: The request.
            now: The time.
            seconds: The server's `Retry-After`; 0 without one.
        """
        self._end(attempt)
        if attempt.epoch == self._epoch:  # the first refusal since the limit changed
            if now >= self._no_higher_before > 0:
                self._refused_pause = min(2 * self._refused_pause, _LONGEST_REFUSED_PAUSE)
            self._floor = max(1, int(self.limit * (_SLIGHT_CUT if self._rationed_by_time else _CUT)))
        # Where so many at a time are accepted, another can be sent for each that ends. Where so many a second are, not.
        self._rationed_by_time |= self._pause_began < attempt.at < self._pause
        if now >= self._pause:
            self._pause_began = now
        self._pause = max(self._pause, now + min(seconds, LONGEST_PAUSE))
        if self._rationed_by_time:
            self.paused_until = self._pause
        self.limit = max(self._floor, min(self.limit, self.in_flight), 1)
        self._no_higher_before = now + (_SHORT_REFUSED_PAUSE if self._rationed_by_time else self._refused_pause)
        self._rest()

    def has_slots(self, slots: int) -> None:
        """The server says how many requests it works on at a time; a few more are sent, which wait there."""
        self.informed = True
        self._set(slots + max(1, slots // 4))

    def told(self, running: float, waiting: float) -> None:
        """The server says how many requests it works on, and how many wait, whoever sent them."""
        if running + waiting < self.in_flight / 2:
            # One of several servers behind one address, perhaps, or its figures are old.
            self._mistrusted += 1
            self.informed = self._mistrusted < 10
            return
        self.informed, self._mistrusted = True, 0
        spare = 1 + running // 4
        if waiting > 1.5 * spare:
            share = self.in_flight / (running + waiting)
            self._phase = "hold"
            self._set(min(self.limit, max(1, round(self.in_flight - (waiting - spare) * share))))
        elif waiting <= spare and self.in_flight >= 0.9 * self.limit:
            # Clients that all add as much, and cut by their share, come to have equal shares.
            more = running // 32 if self._phase == "hold" else self.limit
            self._set(int(min(MAX_LIMIT, self.limit + max(1, more))))

    def _set(self, limit: int) -> None:
        self.limit = limit
        self._epoch += 1
        self._window = []

    def _rest(self) -> None:
        """Stay at this limit for a while."""
        self._phase, self._accepted, self._throughput, self._held = "hold", self.limit, None, 0
        self._set(self.limit)

    def _window_size(self) -> int:
        if self._phase == "opening":
            return self.limit
        return max(self.limit // 2, 8) if self._phase == "start" else max(self.limit, _FEWEST_REPLIES)

    def _judge(self, replies: Sequence[_Reply], now: float) -> None:
        """Compare a window's throughput with that of the limit before, and choose the next limit."""
        in_flight = sum(reply.in_flight for reply in replies) / len(replies)
        if in_flight < 0.8 * self.limit:
            return  # there was not enough to send
        seconds = sum(reply.seconds for reply in replies) / len(replies)
        throughput = in_flight / max(seconds, 1e-9)
        self._lowest = min(seconds, self._lowest * 1.02) if self._lowest else seconds
        if self._phase == "opening" and (queued := _rise(replies)) > 2:
            self._accepted = self.limit = max(2, round(self.limit / queued))
            self._rest()
        elif self._phase in ("opening", "start"):
            self._judge_start(throughput)
        elif self._phase == "hold":
            self._judge_hold(throughput, now)
        else:
            self._judge_trial(throughput, seconds)

    def _judge_start(self, throughput: float) -> None:
        before = self._throughput
        if before is None or throughput >= before * (1 + _GAIN * (_DOUBLING - 1)):
            self._phase, self._accepted, self._throughput = "start", self.limit, throughput
            self._set(min(MAX_LIMIT, int(self.limit * _DOUBLING)))
        else:
            self._try("down", _FAR_DOWN if throughput < 0.9 * before else _DOWN)

    def _judge_hold(self, throughput: float, now: float) -> None:
        before = self._throughput
        self._throughput = throughput if before is None else 0.7 * before + 0.3 * throughput
        self._held += 1
        may_rise = now >= self._no_higher_before
        if before is not None and throughput > 1.5 * before and may_rise:
            self._throughput = throughput
            self._try("up", _DOUBLING)
        elif before is not None and throughput < 0.6 * before:
            self._throughput, self._held, self._go_up = None, self._hold_for, True  # seen again, a lower limit is tried
        elif self._rationed_by_time and may_rise:
            self._set(self.limit + max(1, self.limit // 20))
            self._accepted = self.limit
        elif self._held >= self._hold_for and may_rise:
            self._go_up = not self._go_up
            self._try("up", _UP) if self._go_up else self._try("down", _DOWN)

    def _judge_trial(self, throughput: float, seconds: float) -> None:
        before = self._throughput or 0.0
        if self._phase == "up":
            change = self.limit / self._accepted - 1
            slow = seconds > _SLOWEST * (self._lowest or seconds)
            good = throughput >= before * (1 + _GAIN * change) and not slow
        else:
            good = throughput >= before * _SAME
        if good:
            self._accepted, self._throughput = self.limit, max(throughput, before)
            self._hold_for = _HELD
            self._try(self._phase, self._step)  # type: ignore[arg-type]
            return
        self._hold_for = min(2 * self._hold_for, _LONGEST_HELD)
        self.limit = self._accepted
        self._rest()

    def _try(self, phase: Literal["up", "down"], step: float) -> None:
        """Take another limit for one window."""
        self._phase, self._step = phase, step
        wanted = round(self._accepted * step)
        wanted = max(wanted, self._accepted + 1) if step > 1 else min(wanted, self._accepted - 1)
        wanted = min(MAX_LIMIT, max(1, wanted))
        if wanted == self._accepted:
            self._rest()
        else:
            self._set(wanted)


def _rise(replies: Sequence[_Reply]) -> float:
    """How many times as long the requests sent last took as those sent first: more than 1 where a queue grew."""
    quarter = max(1, len(replies) // 4)
    first, last = replies[:quarter], replies[-quarter:]
    return sum(reply.seconds for reply in last) / max(sum(reply.seconds for reply in first), 1e-9)
