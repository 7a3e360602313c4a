"""Sends the spans of a program where the variables of OpenTelemetry say."""

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

PROVIDER = TracerProvider()
PROVIDER.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(PROVIDER)


def look_up(place: str) -> str:
    """Return the country of a place."""
    return {"Oslo": "Norway"}[place]
