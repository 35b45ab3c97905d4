"""Runs as OpenTelemetry spans, when HOPGRAPH_OTEL asks for it: run > node > model call or search.

Where they go is said by the standard variables (`OTEL_EXPORTER_OTLP_ENDPOINT` and its like), or by the tracer provider
that the program has set. Names and attributes are those of the semantic conventions for generative AI where these have
one, and `hopgraph.*` elsewhere. A collector that fails costs a run nothing but its spans.
"""

from __future__ import annotations

from hopgraph.telemetry.export import flush, tracer
from hopgraph.telemetry.spans import RunSpan, Spans, run_span

__all__ = ["RunSpan", "Spans", "flush", "run_span", "tracer"]
