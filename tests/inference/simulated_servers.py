"""Servers under a simulated clock, for tests of how many calls are sent: no time passes, and nothing is random."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

from inference.adaptive import TICK, AdaptiveLimit
from inference.fixed_limit import Attempt, FixedLimit
from inference.retries import FIRST_BACKOFF, MAX_BACKOFF


@dataclass
class Job:
    """A request in a server."""

    work: float
    done: Callable[[], None]


class Clock:
    """Runs what is due, in order."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = count()

    def after(self, seconds: float, then: Callable[[], None]) -> None:
        heappush(self._due, (self.now + seconds, next(self._count), then))

    def run(self, until: Callable[[], bool]) -> None:
        while self._due and not until():
            self.now, _, then = heappop(self._due)
            then()


class Server:
    """`slots` requests at a time, the others wait; more than `knee` slow each other down by `collapse`.

    Args:
        slots: Requests worked on at a time.
        knee: Beyond so many at a time the server's total speed falls, as (knee / n) ** collapse.
        collapse: 0: the total stays the same.
        most: Beyond so many in flight it refuses.
        rate: Beyond so many in a second, on average over a `period`, it refuses.
        period: Seconds after which it counts anew.
    """

    def __init__(
        self,
        clock: Clock,
        slots: float = math.inf,
        knee: float = math.inf,
        collapse: float = 0.5,
        most: float = math.inf,
        rate: float = math.inf,
        period: float = 1.0,
    ) -> None:
        self.clock, self.slots, self.knee, self.collapse = clock, slots, knee, collapse
        self.most, self.rate, self.period = most, rate, period
        self.running: list[tuple[float, int, Job]] = []
        self.waiting: deque[Job] = deque()
        self.speed = 1.0
        self.peak = 0
        self._since = self._worked = 0.0
        self._version, self._count = 0, count()
        self._period, self._in_period = -1, 0

    def take(self, job: Job) -> float | None:
        """Accept a request, or give the seconds of `Retry-After`."""
        if len(self.running) + len(self.waiting) >= self.most:
            return 1.0
        period = int(self.clock.now / self.period)
        self._in_period = self._in_period + 1 if period == self._period else 1
        self._period = period
        if self._in_period > self.rate * self.period:
            return math.ceil((period + 1) * self.period - self.clock.now)
        self._advance()
        if len(self.running) < self.slots:
            self._work_on(job)
        else:
            self.waiting.append(job)
        self.peak = max(self.peak, len(self.running) + len(self.waiting))
        self._plan()
        return None

    def _rate(self) -> float:
        """Speed of each request."""
        n = len(self.running)
        return self.speed if n <= self.knee else self.speed * (self.knee / n) ** (1 + self.collapse)

    def _advance(self) -> None:
        self._worked += (self.clock.now - self._since) * self._rate()
        self._since = self.clock.now

    def _work_on(self, job: Job) -> None:
        heappush(self.running, (self._worked + job.work, next(self._count), job))

    def _plan(self) -> None:
        self._version += 1
        if self.running:
            version = self._version
            left = max(0.0, self.running[0][0] - self._worked)
            self.clock.after(left / self._rate(), lambda: self._finish(version))

    def change_speed(self, speed: float) -> None:
        """From now on."""
        self._advance()
        self.speed = speed
        self._plan()

    def _finish(self, version: int) -> None:
        if version != self._version:
            return
        self._advance()
        ended = []
        while self.running and self.running[0][0] <= self._worked + 1e-9:
            ended.append(heappop(self.running)[2])
        while self.waiting and len(self.running) < self.slots:
            self._work_on(self.waiting.popleft())
        self._plan()
        for job in ended:
            job.done()


@dataclass
class Client:
    """Questions of `chain` calls each, one after the other, through a limit.

    Args:
        begins: Seconds between the beginnings of two questions: what the client's own work takes.
    """

    clock: Clock
    server: Server
    limit: FixedLimit
    questions: int = 200
    chain: int = 6
    spread: float = 0.0
    told: bool = False
    begins: float = 0.005
    seed: int = 0
    tail: bool = True
    replies: list[float] = field(default_factory=list)
    refusals: int = 0
    most: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._queue: list[tuple[int, int, int, int]] = []
        self._count = count()
        self._begun = self._open = 0
        self._latest_begin = self._wakes_at = -1.0

    def start(self) -> None:
        self._begin()
        self.clock.after(TICK, self._open_up)
        if self.told:
            self.clock.after(TICK * self._random.uniform(0.8, 1.2), self._poll)

    @property
    def done(self) -> bool:
        return len(self.replies) == self.questions * self.chain

    def _begin(self) -> None:
        if self._begun == self.questions or self._open >= 2 * self.limit.limit:
            return
        if self.clock.now < self._latest_begin + self.begins:
            return
        self._latest_begin = self.clock.now
        self._wait(self._begun, self.chain)
        self._begun += 1
        self._open += 1
        self.clock.after(self.begins, self._begin)
        self._send()

    def _wait(self, question: int, left: int) -> None:
        priority = question if self._begun < self.questions - 1 or not self.tail else self.questions
        heappush(self._queue, (priority, next(self._count), question, left))

    def _open_up(self) -> None:
        self.limit.tick(self.clock.now)
        self._send()
        if not self.done:
            self.clock.after(TICK, self._open_up)

    def _poll(self) -> None:
        assert isinstance(self.limit, AdaptiveLimit)
        self.limit.set_load(len(self.server.running), len(self.server.waiting))
        self._send()
        if not self.done:
            self.clock.after(TICK * self._random.uniform(0.8, 1.2), self._poll)

    def _send(self) -> None:
        if self.clock.now < self.limit.paused_until:
            if self._wakes_at < self.limit.paused_until:
                self._wakes_at = self.limit.paused_until + 1e-6
                self.clock.after(self._wakes_at - self.clock.now, self._send)
            return
        while self._queue and self.limit.in_flight < self.limit.limit and self.clock.now >= self.limit.paused_until:
            _, _, question, left = heappop(self._queue)
            attempt = self.limit.sent(self.clock.now)
            self.most = max(self.most, self.limit.in_flight)
            work = math.exp(self._random.gauss(0, self.spread) - self.spread**2 / 2) if self.spread else 1.0
            refused = self.server.take(Job(work, self._reply(attempt, question, left)))
            if refused is not None:
                self.clock.after(0.001, self._refused(attempt, question, left, refused))
        self._begin()

    def _refused(self, attempt: Attempt, question: int, left: int, seconds: float) -> Callable[[], None]:
        def then() -> None:
            self.refusals += 1
            self.limit.refused(attempt, self.clock.now, seconds)
            # The client's own pause before it tries again, and what the server asks for.
            pause = max(FIRST_BACKOFF * self._random.uniform(1, 2), min(seconds, MAX_BACKOFF))
            self.clock.after(pause, lambda: self._again(question, left))
            self._send()

        return then

    def _again(self, question: int, left: int) -> None:
        heappush(self._queue, (-1, next(self._count), question, left))
        self._send()

    def _reply(self, attempt: Attempt, question: int, left: int) -> Callable[[], None]:
        def then() -> None:
            self.limit.replied(attempt, self.clock.now)
            self.replies.append(self.clock.now)
            if left > 1:
                self._wait(question, left - 1)
            else:
                self._open -= 1
                self._begin()
            self._send()

        return then


def seconds(make: Callable[[Clock], Server], limit: FixedLimit, **options: object) -> tuple[float, Client]:
    """How long a client takes with a server of its own."""
    clock = Clock()
    client = Client(clock, make(clock), limit, **options)  # type: ignore[arg-type]
    client.start()
    clock.run(lambda: client.done)
    assert client.done, (len(client.replies), limit.limit, limit.in_flight)
    return clock.now, client


def best_fixed(
    make: Callable[[Clock], Server], limits: Sequence[int] = (1, 8, 16, 32, 64, 128, 256), **options: object
):
    """The least seconds with a fixed limit."""
    return min(seconds(make, FixedLimit(limit), **options)[0] for limit in limits)
