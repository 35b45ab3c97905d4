"""Metrics of the server, in Prometheus's text format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from inference.drain import in_flight

if TYPE_CHECKING:
    from hopgraph.results import Result
    from hopgraph.server.admission import Admission

_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000)
CONTENT_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    """Counters of one server.

    Args:
        admission: Its queue.
    """

    def __init__(self, admission: Admission) -> None:
        self._all = CollectorRegistry()
        self._runs = Counter("hopgraph_runs", "Runs that ended", ["method", "status"], registry=self._all)
        self._calls = Counter("hopgraph_model_calls", "Replies of the endpoint", ["method"], registry=self._all)
        self._tokens = Counter("hopgraph_tokens", "Tokens of model calls", ["method", "kind"], registry=self._all)
        self._seconds = Histogram(
            "hopgraph_run_seconds", "Time of a run", ["method"], buckets=_SECONDS, registry=self._all
        )
        self._refused = Counter("hopgraph_requests_refused", "Requests answered with an error", ["code"],
                                registry=self._all)  # fmt: skip
        Gauge("hopgraph_runs_active", "Runs in progress", registry=self._all).set_function(lambda: admission.running)
        Gauge("hopgraph_queue_waiting", "Requests that wait for a run", registry=self._all).set_function(
            lambda: admission.waiting
        )
        Gauge("hopgraph_model_calls_in_flight", "Model calls in flight", registry=self._all).set_function(in_flight)

    def ended(self, result: Result, seconds: float) -> None:
        """Record a run that has ended."""
        method, cost = result["method"], result["cost"]
        self._runs.labels(method, result["status"]).inc()
        self._calls.labels(method).inc(cost["calls"])
        self._tokens.labels(method, "prompt").inc(cost["prompt_tokens"])
        self._tokens.labels(method, "completion").inc(cost["completion_tokens"])
        self._seconds.labels(method).observe(seconds)

    def cancelled(self, method: str) -> None:
        """Record a run whose client went away, or that the server's end cut."""
        self._runs.labels(method, "cancelled").inc()

    def refused(self, code: str) -> None:
        """Record a request answered with an error."""
        self._refused.labels(code).inc()

    def text(self) -> bytes:
        """All metrics."""
        return generate_latest(self._all)
