"""What runs next to the routes: the poller of events, and the worker of requested scores."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi.requests import HTTPConnection

from evaluation_pipelines.service.event_hub import EventHub
from evaluation_pipelines.service.installation import Installation
from evaluation_pipelines.service.scoring_worker import ScoringWorker


class Live:
    """The event hub and the scoring worker of one service."""

    def __init__(self, installation: Installation) -> None:
        self.hub = EventHub(installation.stores.ledger)
        self._worker = ScoringWorker(installation.stores, installation.clock)
        self._has_worker = installation.settings.service_scoring == "service"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run both meanwhile; at the end scorings in progress are released."""
        async with self.hub.running():
            if not self._has_worker:
                yield
                return
            self._worker.start()
            try:
                yield
            finally:
                await asyncio.to_thread(self._worker.stop)

    def notify(self) -> None:
        """Let the worker look for requests now."""
        self._worker.notify()


def live_of(connection: HTTPConnection) -> Live:
    """Return what runs next to the routes; a dependency of routes."""
    live: Live = connection.app.state.live
    return live
