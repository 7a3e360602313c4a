"""What the routes of the service work on: stores, keys and metrics."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache

from fastapi.requests import HTTPConnection
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from evaluation_pipelines.access.key_ring import KeyRing
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.stores import Stores

LOG = logging.getLogger("evaluation_pipelines.service")


_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Counts of one service; other modules add theirs to ``registry``.

    Each is a function of its labels, which remembers what it returns: to look for the labels takes
    longer than to count.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = self._counter(
            "evaluation_http_requests", "Answered requests.", "method", "route", "status"
        )
        seconds = Histogram(
            "evaluation_http_request_seconds",
            "Time from the first byte of a request to the last of its answer.",
            ["route"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.seconds: Callable[..., Histogram] = cache(seconds.labels)

        self.received_requests = self._counter(
            "evaluation_received_requests", "Accepted OTLP requests.", "signal", "format"
        )
        self.received_records = self._counter(
            "evaluation_received_records", "Log records stored on disk.", "format"
        )
        self.received_bytes = self._counter(
            "evaluation_received_bytes", "Bytes of OTLP requests stored on disk.", "signal"
        )
        self.refused_requests = self._counter(
            "evaluation_refused_requests", "Rejected OTLP requests.", "signal", "reason"
        )

    def _counter(self, name: str, meaning: str, *labels: str) -> Callable[..., Counter]:
        return cache(Counter(name, meaning, labels, registry=self.registry).labels)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self.registry)


@dataclass(frozen=True, slots=True)
class Installation:
    """The stores of a running service, its keys and metrics; ``clock`` returns the time."""

    stores: Stores
    keys: KeyRing
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    metrics: Metrics = field(default_factory=Metrics)

    @property
    def settings(self) -> Settings:
        """All settings."""
        return self.stores.settings


def installation_of(connection: HTTPConnection) -> Installation:
    """Return the installation of a request or WebSocket; a dependency of routes."""
    installation: Installation = connection.app.state.installation
    return installation
