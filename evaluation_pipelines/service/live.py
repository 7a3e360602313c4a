"""What runs next to the routes: poller of events, worker of requested scores, look for damage."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext

from fastapi.requests import HTTPConnection

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.scorecards.blind_reviews import BlindReviews
from evaluation_pipelines.service.event_hub import EventHub
from evaluation_pipelines.service.installation import Installation
from evaluation_pipelines.service.keeper import Keeper
from evaluation_pipelines.service.scoring_worker import ScoringWorker
from evaluation_pipelines.storage.damage import find_damage
from evaluation_pipelines.storage.ledger.errors import LedgerError

LOG = logging.getLogger(__name__)

_LOOK_FOR_DAMAGE_EVERY_S = 600.0


class Live:
    """What one service runs: event hub, scoring worker, look for damaged files, and the keeper."""

    def __init__(
        self, installation: Installation, reviews: BlindReviews, keeper: Keeper | None = None
    ) -> None:
        self.hub = EventHub(installation.stores.ledger, waiting=reviews.waiting)
        self._installation = installation
        self._worker: ScoringWorker | None = None
        self.keeps_current = keeper is not None
        self._keeping = nullcontext() if keeper is None else keeper.running()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run all of it meanwhile; at the end it is stopped as by ``stop``."""
        async with self.hub.running(), self._looking_for_damage(), self._keeping:
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
        """Release the scorings in progress, and send those who follow them the event of it.

        The rest of the service ends in good order even if the ledger cannot be used.
        """
        if self._worker is not None:
            await asyncio.to_thread(self._worker.stop)
            try:
                await self.hub.deliver()
            except LedgerError as error:
                LOG.warning("the last events are not sent: %s", error)

    @asynccontextmanager
    async def _looking_for_damage(self) -> AsyncIterator[None]:
        """Look now and then; what is found is noted in the ledger, from where pages show it."""
        looking = asyncio.create_task(self._look_for_damage())
        try:
            yield
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    async def _look_for_damage(self) -> None:
        while True:
            try:
                await asyncio.to_thread(find_damage, self._installation.stores)
            except UserError as error:
                LOG.warning("the tables could not be looked through for damage: %s", error)
            await asyncio.sleep(_LOOK_FOR_DAMAGE_EVERY_S)

    def notify(self) -> None:
        """Let the worker look for requests now."""
        if self._worker is not None:
            self._worker.notify()


def live_of(connection: HTTPConnection) -> Live:
    """Return what runs next to the routes; a dependency of routes."""
    live: Live = connection.app.state.live
    return live
