"""Exports runs as OpenTelemetry spans if HOPGRAPH_OTEL is on: run > node > model call or search.

The standard variables (such as `OTEL_EXPORTER_OTLP_ENDPOINT`) or the program's tracer provider set the destination.
Names and attributes follow the semantic conventions for generative AI, with `hopgraph.*` for the rest. A failing
collector loses spans but never affects a run.
"""

from __future__ import annotations

from hopgraph.telemetry.export import flush, tracer
from hopgraph.telemetry.spans import RunSpan, Spans, run_span

__all__ = ["RunSpan", "Spans", "flush", "run_span", "tracer"]
