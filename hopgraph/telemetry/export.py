"""Export of spans: by the program's tracer provider, or a private one whose failures never affect a run."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from inference.errors import InputError
from inference.settings import get_settings
from stores.checkpoint_errors import without_password

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

_log = logging.getLogger(__name__)
_LAST_CHANCE = 3.0
"""Time-out of a batch of spans at exit, in seconds."""
_PAUSE = 60.0
"""Seconds without exports after a collector has failed."""


def tracer() -> trace.Tracer:
    """The tracer of the program's provider if it has set one, else of a private one.

    Raises:
        InputError: The exporter is not installed, or an OTEL_* variable is malformed.
    """
    current = trace.get_tracer_provider()
    provider = _own_provider() if isinstance(current, trace.ProxyTracerProvider) else current
    return provider.get_tracer("hopgraph")


def flush() -> None:
    """Export finished spans now, instead of when a batch is full."""
    if _own_provider.cache_info().currsize:
        _own_provider().force_flush()


@lru_cache(maxsize=1)
def _own_provider() -> TracerProvider:
    """A private provider: the program may still set its own."""
    named = {} if "OTEL_SERVICE_NAME" in os.environ else {SERVICE_NAME: "hopgraph"}
    provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
    exporter = _Forgiving(_exporter(), provider.shutdown)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    atexit.register(exporter.finish)
    return provider


def _exporter() -> SpanExporter:
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    try:
        kind = "grpc" if protocol == "grpc" else "http"
        over = import_module(f"opentelemetry.exporter.otlp.proto.{kind}.trace_exporter")
    except ImportError:
        raise InputError(
            "HOPGRAPH_OTEL: sending spans needs an extra", hint="pip install 'hopgraph[otel]', or unset HOPGRAPH_OTEL"
        ) from None
    try:
        exporter: SpanExporter = over.OTLPSpanExporter()
    except ValueError as error:
        raise InputError(f"OTEL_EXPORTER_OTLP_*: {error}", hint="unset HOPGRAPH_OTEL to do without") from None
    return exporter


class _Forgiving(SpanExporter):
    """Wraps an exporter; after a failure, exports pause for a while, with one warning.

    Args:
        exporter: The wrapped exporter.
        shutdown: Exports the remaining spans and shuts down.
    """

    def __init__(self, exporter: SpanExporter, shutdown: Callable[[], None]) -> None:
        self._exporter = exporter
        self._quiet_until = 0.0
        self._sent_at = float("-inf")
        self._said = False
        self._reason = _Reason()
        log = logging.getLogger("opentelemetry.exporter.otlp")
        log.addHandler(self._reason)
        log.propagate = False  # it repeats the error with every batch
        self._over = threading.Event()

        def finish() -> None:
            self._over.wait()
            shutdown()

        # Started now, because no thread can start at interpreter exit.
        self._finisher = threading.Thread(target=finish, name="hopgraph-spans", daemon=True)
        self._finisher.start()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export a batch, or drop it during a pause."""
        if time.monotonic() < self._quiet_until:
            return SpanExportResult.FAILURE
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self._sent_at = time.monotonic()
        else:
            self._quiet_until = time.monotonic() + _PAUSE
            self._say()
        return result

    def shutdown(self) -> None:
        """Shut down the wrapped exporter."""
        self._exporter.shutdown()

    def finish(self) -> None:
        """Export the remaining spans at exit, as long as the collector accepts them."""
        begun = time.monotonic()
        self._over.set()
        while self._finisher.is_alive():
            self._finisher.join(0.05)
            if time.monotonic() > max(begun, self._sent_at) + _LAST_CHANCE:
                self._say()
                return

    def _say(self) -> None:
        if not self._said:
            self._said = True
            place = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or os.environ.get(
                "OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318"
            )
            reason = f" ({self._reason.text})" if self._reason.text else ""
            _log.warning(
                "spans can't be sent to %s%s; runs continue without", without_password(place), without_secrets(reason)
            )


class _Reason(logging.Handler):
    """The exporter's last log message."""

    text = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Store the message."""
        self.text = " ".join(record.getMessage().split())[:200]


def without_secrets(text: str) -> str:
    """`text` with configured secrets redacted; a server's message may quote one."""
    settings = get_settings()
    for name in type(settings).model_fields:
        secret = getattr(settings, name)
        if hasattr(secret, "get_secret_value") and (value := secret.get_secret_value()):
            text = text.replace(value, "***")
    return text
