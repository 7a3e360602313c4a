"""What runs next to the routes: the poller of events, and the worker of requested scores."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi.requests import HTTPConnection

from evaluation_pipelines.scorecards.blind_reviews import BlindReviews
from evaluation_pipelines.service.event_hub import EventHub
from evaluation_pipelines.service.installation import Installation
from evaluation_pipelines.service.scoring_worker import ScoringWorker


class Live:
    """The event hub and the scoring worker of one service."""

    def __init__(self, installation: Installation, reviews: BlindReviews) -> None:
        self.hub = EventHub(installation.stores.ledger, waiting=reviews.waiting)
        self._installation = installation
        self._worker: ScoringWorker | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run both meanwhile; at the end they are stopped as by ``stop``."""
        async with self.hub.running():
            if self._installation.settings.service_scoring == "dagster":
                yield
                return
            worker = ScoringWorker(self._installation.stores, self._installation.clock)
            worker.start()
            self._worker = worker
            try:
                yield
            finally:
                await self.stop()

    async def stop(self) -> None:
        """Release the scorings in progress, and send those who follow them the event of it."""
        if self._worker is not None:
            await asyncio.to_thread(self._worker.stop)
            await self.hub.deliver()

    def notify(self) -> None:
        """Let the worker look for requests now."""
        if self._worker is not None:
            self._worker.notify()


def live_of(connection: HTTPConnection) -> Live:
    """Return what runs next to the routes; a dependency of routes."""
    live: Live = connection.app.state.live
    return live
