"""What the routes of the service work on."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from fastapi.requests import HTTPConnection

from evaluation_pipelines.access.key_ring import KeyRing
from evaluation_pipelines.service.metrics import Metrics
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.stores import Stores

LOG = logging.getLogger("evaluation_pipelines.service")


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
