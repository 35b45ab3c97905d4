"""How many calls an endpoint can take, learned while calling it: the arithmetic, without clock or network.

`HOPGRAPH_LLM_CONCURRENCY=auto` is this. What a server says counts first; what it shows is the rest:

- vLLM reports how many requests run and how many wait. The limit follows: as many as run, and a quarter more that wait,
  so that a slot that becomes free is filled at once. llama.cpp's server reports its slots.
- Refusals (429, 503) cut the limit to what was accepted, and it stays there; higher values are tried after 30 s, then
  ever less often: additive increase, multiplicative decrease (Chiu and Jain, "Analysis of the Increase and Decrease
  Algorithms for Congestion Avoidance", 1989) with a memory, as in CUBIC (RFC 9438). Where so many requests a second or
  a minute are accepted, all calls pause as long as `Retry-After` says.
- Others are measured: slow start, which doubles the limit (RFC 5681) while throughput grows with it. Where it stops
  growing, the limit becomes what BBR calls the bandwidth-delay product (Cardwell et al., "BBR: Congestion-Based
  Congestion Control", ACM Queue 2016): the highest throughput, times the seconds of a reply where none waits. From
  there hill climbing on throughput, as in the .NET thread pool (Hellerstein, Morrison and Eilebrecht, "Optimizing
  Concurrency Levels in the .NET ThreadPool", FeBID 2008).

Throughput is replies by seconds, over whole multiples of the limit: replies that come all at the same moment are then
counted right, and so are those of unlike lengths. The mean latency would be of the short ones, which come first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

__all__ = ["MAX_LIMIT", "OPENING", "TICK", "AdaptiveLimit", "Attempt", "FixedLimit"]

OPENING = 24
"""The first limit of an endpoint that nothing is known of. One that is slower with 24 calls than with 8 loses little by
the first of a thousand; one that takes 256 is at its limit after four times the seconds of a reply."""
TICK = 0.1
"""Seconds between two calls of `AdaptiveLimit.tick`."""
MAX_LIMIT = 1024
LONGEST_PAUSE = 60.0
"""Seconds that a `Retry-After` stops all calls at most."""
_REFUSED_PAUSE, _LONGEST_REFUSED_PAUSE = 30.0, 480.0
"""Seconds after a refusal until a higher limit is tried: at first, and at most."""
_RATION_PAUSE = 2.0
"""The same, at least, where a server counts requests a second or a minute."""
_RATION_OVER = 120.0
"""Seconds without a refusal after which it is taken to have stopped counting."""
_CUT, _RATION_CUT = 0.7, 0.9
"""Factors that refusals cut the limit by at most, until they are seen again."""
_GROWN = 1.4
"""Factor by which throughput must grow for slow start to go on."""
_UNSURE = 1.2
"""The same for the opening: below, the opening itself may be too high."""
_COLLAPSED = 0.95
"""Factor of the throughput before at which calls are slowed down by each other, whatever comes."""
_ROOM = 1.25
"""Factor of the bandwidth-delay product: its figures are low where replies come in bursts."""
_UP, _DOWN = 1.15, 0.87
"""Factors by which the limit is changed for a trial."""
_GAIN = 0.2
"""Share of the change in calls by which throughput must grow with them."""
_SAME = 0.95
"""Share of the throughput that a lower limit must keep."""
_FEWEST_REPLIES = 64
"""Replies of a window at least, once slow start is over."""
_LONGEST_HELD = 16
"""Windows between two trials at most."""
_SLOWEST = 3.0
"""How many times the lowest latency seen a higher limit may cost: several clients would outbid each other without."""


@dataclass(slots=True)
class Attempt:
    """A request that was sent."""

    at: float
    epoch: int
    """Changes with the limit: of many refusals of one limit only the first counts."""
    open: bool = True


class FixedLimit:
    """A limit that stays as it is.

    Args:
        limit: Calls in flight at most.
    """

    paused_until = 0.0

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.in_flight = 0

    def sent(self, now: float) -> Attempt:
        """A request goes out."""
        self.in_flight += 1
        return Attempt(now, 0)

    def replied(self, attempt: Attempt, now: float) -> None:
        """It was answered."""
        self._end(attempt, now)

    def refused(self, attempt: Attempt, now: float, seconds: float = 0.0) -> None:
        """The server is too busy for it."""
        self._end(attempt, now)

    def ended(self, attempt: Attempt, now: float) -> None:
        """It ended in a way that says nothing: cancelled, a bad request, no connection."""
        self._end(attempt, now)

    def tick(self, now: float) -> None:
        """Time passes: called every `TICK` while calls wait or are in flight."""

    def _end(self, attempt: Attempt, now: float) -> None:
        attempt.open = False
        self.in_flight -= 1


class AdaptiveLimit(FixedLimit):
    """A limit that follows what the endpoint can take. All times are seconds of one clock."""

    def __init__(self) -> None:
        super().__init__(OPENING)
        self.informed = False
        """Whether the server says how busy it is."""
        self.paused_until = 0.0
        self._phase: Literal["start", "back", "up", "down", "hold"] = "start"
        self._epoch = self._mistrusted = 0
        # The window: since when, how many replies, and the seconds of all calls in flight until `_counted`.
        self._since, self._replies, self._flying, self._counted, self._draining = 0.0, 0, 0.0, 0.0, False
        self._accepted = self.limit
        """The limit that a trial goes back to."""
        self._throughput: float | None = None
        """Calls a second at that limit."""
        self._lowest: float | None = None
        """Least mean seconds of a reply."""
        self._held, self._hold_for, self._go_up = 0, 1, True
        self._refused_pause, self._no_higher_before = _REFUSED_PAUSE, 0.0
        self._pause = self._refused_at = 0.0
        self._rationed, self._floor = False, 1
        self._beside = 0
        """Calls in flight beside those refused, when they were."""
        self._freed_at = math.inf
        """When the first of them ended."""

    @property
    def settled(self) -> bool:
        """Whether the first search for the limit is over."""
        return self._phase not in ("start", "back")

    def sent(self, now: float) -> Attempt:
        """A request goes out."""
        if self.in_flight == 0:
            self._measure_from(now)
        self._count(now, 1)
        return Attempt(now, self._epoch)

    def replied(self, attempt: Attempt, now: float) -> None:
        """It was answered."""
        self._freed_at = min(self._freed_at, now)
        self._replies += 1
        self._end(attempt, now)
        if self._draining:
            self._draining = self.in_flight >= self.limit
            self._measure_from(now)
        elif self._replies >= self._window() and not (self.informed or self._rationed):
            seconds = max(now - self._since, 1e-9)
            in_flight, throughput = self._flying / seconds, self._replies / seconds
            self._measure_from(now)
            if in_flight >= 0.8 * self.limit:  # else there was not enough to send
                self._judge(throughput, in_flight / throughput, now)

    def tick(self, now: float) -> None:
        """Time passes: called every `TICK` while calls wait or are in flight."""
        if self._rationed and now >= self._no_higher_before:
            self._rationed = now - self._refused_at < _RATION_OVER
            if self.in_flight >= 0.8 * self.limit:
                self._set(min(MAX_LIMIT, self.limit + max(1, self.limit // 20)))
            self._no_higher_before = now + self._refused_pause
        # Replies that would be too late, if they came, need not be waited for: what replaced them would be late, too.
        if self._phase == "start" and self._throughput and not self.informed:
            self._count(now, 0)
            seconds = now - self._since
            late = seconds > self._window() / (_COLLAPSED * self._throughput)
            if late and self._flying >= 0.8 * self.limit * seconds:
                self._judge_start(0.0)

    def refused(self, attempt: Attempt, now: float, seconds: float = 0.0) -> None:
        """The server is too busy for it.

        Args:
            attempt: The request.
            now: The time.
            seconds: The server's `Retry-After`; 0 without one.
        """
        self._end(attempt, now)
        # Where so many at a time are accepted, another can be sent for each that ends. Where so many a second are, not.
        if now < self._pause and self.in_flight == 0:
            self._rationed = True
        elif now >= self._pause:
            self._freed_at, self._beside = math.inf, self.in_flight
        elif attempt.at < self._freed_at:
            self._beside = min(self._beside, self.in_flight)
        else:
            self._rationed |= self.in_flight < self._beside
        seconds = min(seconds, LONGEST_PAUSE)
        self._pause, self._refused_at = max(self._pause, now + seconds), now
        if attempt.epoch == self._epoch:  # the first refusal since the limit changed
            if now >= self._no_higher_before > 0:
                self._refused_pause = min(2 * self._refused_pause, _LONGEST_REFUSED_PAUSE)
            self._floor = max(1, int(self.limit * (_RATION_CUT if self._rationed else _CUT)))
        if self._rationed:
            self.paused_until = self._pause
            self._refused_pause = max(_RATION_PAUSE, 2 * seconds)
        self._no_higher_before = now + self._refused_pause
        self._rest(max(self._floor, min(self.limit, self.in_flight), 1))

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
        self._draining = self.in_flight > limit
        self._epoch += limit != self.limit
        self.limit = limit

    def _rest(self, limit: int) -> None:
        """Stay at this limit for a while."""
        self._phase, self._accepted, self._throughput, self._held = "hold", limit, None, 0
        self._set(limit)

    def _end(self, attempt: Attempt, now: float) -> None:
        attempt.open = False
        self._count(now, -1)

    def _count(self, now: float, change: int) -> None:
        self._flying += self.in_flight * (now - self._counted)
        self._counted = now
        self.in_flight += change

    def _measure_from(self, now: float) -> None:
        self._since, self._replies, self._flying, self._counted = now, 0, 0.0, now

    def _window(self) -> int:
        """Replies that are counted: whole multiples of the limit."""
        if not self.settled:  # after a collapse, late replies of it are still to come
            return self.limit * (2 if self._phase == "back" else 1)
        return self.limit * max(2, -(-_FEWEST_REPLIES // self.limit))

    def _judge(self, throughput: float, seconds: float, now: float) -> None:
        """Compare a window's throughput with that of the limit before, and choose the next limit."""
        self._lowest = min(seconds, self._lowest * 1.02) if self._lowest else seconds
        if self._phase == "start":
            self._judge_start(throughput)
        elif self._phase == "back":
            self._judge_back(throughput)
        elif self._phase == "hold":
            self._judge_hold(throughput, now)
        else:
            self._judge_trial(throughput, seconds)

    def _judge_start(self, throughput: float) -> None:
        """Slow start: double the limit while throughput grows."""
        before = self._throughput or 0.0
        if throughput >= _GROWN * before:
            self._accepted, self._throughput = self.limit, throughput
            self._set(min(MAX_LIMIT, 2 * self.limit))
        elif throughput < _UNSURE * before and self._accepted == OPENING:
            self._phase, self._throughput = "back", max(throughput, before)
            self._set(OPENING // 2)
        else:
            self._land(max(throughput, before))

    def _judge_back(self, throughput: float) -> None:
        """The opening was too high: halve the limit while throughput stays."""
        before = self._throughput or 0.0
        if throughput >= _SAME * before and self.limit > 1:
            self._throughput = max(throughput, before)
            self._set(self.limit // 2)
        else:
            self._land(before)

    def _land(self, throughput: float) -> None:
        """End slow start at the bandwidth-delay product, and try a higher limit soon."""
        self._rest(max(1, round(_ROOM * throughput * (self._lowest or 0.0))))
        self._hold_for, self._go_up = 1, False

    def _judge_hold(self, throughput: float, now: float) -> None:
        before = self._throughput
        self._throughput = throughput if before is None else 0.7 * before + 0.3 * throughput
        self._held += 1
        if self._held >= self._hold_for and now >= self._no_higher_before:
            self._go_up = not self._go_up
            self._try("up" if self._go_up else "down")

    def _judge_trial(self, throughput: float, seconds: float) -> None:
        before = self._throughput or 0.0
        if self._phase == "up":
            slow = seconds > _SLOWEST * (self._lowest or seconds)
            good = throughput >= before * (1 + _GAIN * (self.limit / self._accepted - 1)) and not slow
        else:
            good = throughput >= before * _SAME
        if good:
            self._accepted, self._throughput, self._hold_for = self.limit, max(throughput, before), 1
            self._try(self._phase)  # type: ignore[arg-type]
            return
        if self._phase == "down":
            self._hold_for = min(2 * self._hold_for, _LONGEST_HELD)
        self._rest(self._accepted)

    def _try(self, phase: Literal["up", "down"]) -> None:
        """Take another limit for one window."""
        self._phase = phase
        if phase == "up":
            wanted = min(MAX_LIMIT, max(round(self._accepted * _UP), self._accepted + 1))
        else:
            wanted = max(1, min(round(self._accepted * _DOWN), self._accepted - 1))
        if wanted == self._accepted:
            self._rest(wanted)
        else:
            self._set(wanted)
