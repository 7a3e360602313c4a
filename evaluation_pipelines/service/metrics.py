"""Metrics of the service for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Counts of one service; other modules add theirs to ``registry``."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "evaluation_http_requests",
            "Answered requests.",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "evaluation_http_request_seconds",
            "Time from the first byte of a request to the last of its answer.",
            ["route"],
            buckets=_SECONDS,
            registry=self.registry,
        )

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self.registry)
