"""Adaptive concurrency limit of an endpoint: the control algorithm, without clock or network.

`HOPGRAPH_LLM_CONCURRENCY=auto` selects it. Load that the server reports takes precedence over measurements:

- vLLM reports running and waiting requests. The limit is the number running plus a quarter queued, so that a free slot
  is filled at once. llama.cpp's server reports its slots.
- Refusals (429, 503) cut the limit to what was accepted. Higher values are tried after 30 s, then less and less often:
  additive increase, multiplicative decrease (Chiu and Jain, "Analysis of the Increase and Decrease Algorithms for
  Congestion Avoidance", 1989) with a memory, as in CUBIC (RFC 9438). If the server limits requests per second or
  minute, all calls pause for `Retry-After`.
- Otherwise throughput is measured: slow start doubles the limit (RFC 5681) while throughput grows. When it stops
  growing, the limit becomes the bandwidth-delay product of BBR (Cardwell et al., "BBR: Congestion-Based Congestion
  Control", ACM Queue 2016): the highest throughput times the latency without queueing. Hill climbing on throughput
  follows, as in the .NET thread pool (Hellerstein, Morrison and Eilebrecht, "Optimizing Concurrency Levels in the .NET
  ThreadPool", FeBID 2008).

Throughput is replies per second, over whole multiples of the limit: this counts bursts and replies of unequal length
correctly. Mean latency would be biased towards short replies, which arrive first.
"""

from __future__ import annotations

import math
from typing import Literal

from inference.fixed_limit import Attempt, FixedLimit

OPENING = 24
"""Initial limit of an unknown endpoint. One that is slower with 24 calls than with 8 loses little on the first of a
thousand; one that takes 256 reaches its limit after four reply latencies."""
TICK = 0.1
"""Seconds between two calls of `AdaptiveLimit.tick`."""
MAX_LIMIT = 1024
LONGEST_PAUSE = 60.0
"""Maximum seconds that a `Retry-After` pauses all calls."""
_REFUSED_PAUSE, _LONGEST_REFUSED_PAUSE = 30.0, 480.0
"""Seconds after a refusal until a higher limit is tried: initial and maximum."""
_RATION_PAUSE = 2.0
"""Minimum of the same for a server that limits requests per second or minute."""
_RATION_OVER = 120.0
"""Seconds without a refusal after which the rate limit is assumed to be gone."""
_CUT, _RATION_CUT = 0.7, 0.9
"""Largest cut by the refusals of one limit, as factors."""
_GROWN = 1.4
"""Factor by which throughput must grow for slow start to continue."""
_UNSURE = 1.2
"""The same for the opening: below, the opening itself may be too high."""
_COLLAPSED = 0.95
"""Factor of the previous throughput below which calls slow each other down."""
_ROOM = 1.25
"""Factor of the bandwidth-delay product, which bursts of replies make too low."""
_UP, _DOWN = 1.15, 0.87
"""Factors by which the limit is changed for a trial."""
_GAIN = 0.2
"""Share of the relative increase in calls that throughput must gain."""
_SAME = 0.95
"""Share of the throughput that a lower limit must keep."""
_FEWEST_REPLIES = 64
"""Minimum replies per window after slow start."""
_LONGEST_HELD = 16
"""Maximum windows between two trials."""
_SLOWEST = 3.0
"""Maximum latency of a higher limit, as a multiple of the lowest; without it, several clients outbid each other."""


class AdaptiveLimit(FixedLimit):
    """A limit that adapts to the endpoint's capacity. All times are seconds of one clock."""

    def __init__(self) -> None:
        super().__init__(OPENING)
        self.informed = False
        """Whether the server reports its load."""
        self.paused_until = 0.0
        self._phase: Literal["start", "back", "up", "down", "hold"] = "start"
        self._epoch = self._mistrusted = 0
        # The window: its start, its replies, and the call-seconds in flight until `_counted`.
        self._since, self._replies, self._flying, self._counted, self._draining = 0.0, 0, 0.0, 0.0, False
        self._accepted = self.limit
        """The limit that a failed trial falls back to."""
        self._throughput: float | None = None
        """Replies per second at that limit."""
        self._lowest: float | None = None
        """Least mean seconds of a reply."""
        self._held, self._hold_for, self._go_up = 0, 1, True
        self._refused_pause, self._no_higher_before = _REFUSED_PAUSE, 0.0
        self._pause = self._refused_at = 0.0
        self._rationed, self._floor = False, 1
        self._beside = 0
        """Other calls in flight at the time of a refusal."""
        self._freed_at = math.inf
        """When the first of them ended."""

    @property
    def settled(self) -> bool:
        """Whether the first search for the limit is over."""
        return self._phase not in ("start", "back")

    def sent(self, now: float) -> Attempt:
        """Count a request that is sent."""
        if self.in_flight == 0:
            self._measure_from(now)
        self._count(now, 1)
        return Attempt(now, self._epoch)

    def replied(self, attempt: Attempt, now: float) -> None:
        """Count its reply; at the end of a window, choose the next limit."""
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
            if in_flight >= 0.8 * self.limit:  # else there were too few calls to measure
                self._judge(throughput, in_flight / throughput, now)

    def tick(self, now: float) -> None:
        """Called every `TICK` seconds while calls wait or are in flight."""
        if self._rationed and now >= self._no_higher_before:
            self._rationed = now - self._refused_at < _RATION_OVER
            if self.in_flight >= 0.8 * self.limit:
                self._set(min(MAX_LIMIT, self.limit + max(1, self.limit // 20)))
            self._no_higher_before = now + self._refused_pause
        # Throughput has collapsed already if the window is overdue: do not wait for its replies.
        if self._phase == "start" and self._throughput and not self.informed:
            self._count(now, 0)
            seconds = now - self._since
            late = seconds > self._window() / (_COLLAPSED * self._throughput)
            if late and self._flying >= 0.8 * self.limit * seconds:
                self._judge_start(0.0)

    def refused(self, attempt: Attempt, now: float, seconds: float = 0.0) -> None:
        """The server refused the request because it is overloaded.

        Args:
            attempt: The request.
            now: The time.
            seconds: The server's `Retry-After`; 0 without one.
        """
        self._end(attempt, now)
        # Under a concurrency limit, each reply makes room for a request; under a rate limit it does not.
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

    def set_slots(self, slots: int) -> None:
        """Set the limit from the server's slots, with a quarter more that queue there."""
        self.informed = True
        self._set(slots + max(1, slots // 4))

    def set_load(self, running: float, waiting: float) -> None:
        """Adapt to the load that the server reports: running and waiting requests of all clients."""
        if running + waiting < self.in_flight / 2:
            # Stale figures, or one of several servers behind a load balancer.
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
            # Additive increase and a cut in proportion converge to equal shares among clients.
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
        """Replies per window: a whole multiple of the limit."""
        if not self.settled:  # after a collapse, its late replies are still arriving
            return self.limit * (2 if self._phase == "back" else 1)
        return self.limit * max(2, -(-_FEWEST_REPLIES // self.limit))

    def _judge(self, throughput: float, seconds: float, now: float) -> None:
        """Compare a window's throughput with the previous limit's, and choose the next limit."""
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
        """The initial limit was too high: halve it while throughput stays the same."""
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
