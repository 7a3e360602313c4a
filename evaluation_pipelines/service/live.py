"""What runs next to the routes: poller of events, worker of requested scores, and others.

One of them is the child process that keeps the data current: started, and started again.
"""

import asyncio
import logging
import sys
import threading
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic

from fastapi.requests import HTTPConnection

from evaluation_pipelines.access.key_ring import KeyRing
from evaluation_pipelines.attention.domain.messages import NOT_CURRENT, reported
from evaluation_pipelines.attention.send import note_judge, raise_alert
from evaluation_pipelines.errors import UserError
from evaluation_pipelines.judging.endpoint.configured import SharedBreakers
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import load_plans
from evaluation_pipelines.judging.report import LeftOpenReason
from evaluation_pipelines.judging.run import LET_GO_S, JudgeRun, RunRequest
from evaluation_pipelines.judging.runner import Interruption
from evaluation_pipelines.service.events import EventHub
from evaluation_pipelines.service.installation import Installation
from evaluation_pipelines.service.kept import Kept
from evaluation_pipelines.storage.ledger.errors import LedgerError
from evaluation_pipelines.storage.lock import KEEP_CURRENT, LockTimeoutError
from evaluation_pipelines.storage.stored_faults import find_damage
from evaluation_pipelines.storage.stores import Stores

KEEPER_LOG = logging.getLogger("evaluation_pipelines.service.keep_current")

# Not from the working folder, where anyone may have put a module.
COMMAND = (sys.executable, "-P", "-m", "evaluation_pipelines.service.keep_current")
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0
_RAN_WELL_S = 300.0
"""After so long the next failure counts as the first one."""

_SECONDS_TO_END = 5


def is_for_one_person(stores: Stores, keys: KeyRing) -> bool:
    """Return whether an installation is that of one person, who should have to start one thing.

    It has no keys, a ledger of this machine, and telemetry in a folder.
    """
    is_local = stores.ledger.engine.dialect.name == "sqlite" and stores.landing.folder is not None
    return is_local and not keys.has_valid_keys()


class Keeper:
    """Keeps a process of ``keep_current`` running next to a service."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep it running meanwhile."""
        keeping = asyncio.create_task(self._keep())
        try:
            yield
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)

    async def _keep(self) -> None:
        """Start the process, and again each time that it ends, after growing pauses."""
        pause_s = _FIRST_PAUSE_S
        while True:
            began = monotonic()
            try:
                process = await asyncio.create_subprocess_exec(*COMMAND, stdin=PIPE)
            except OSError as error:
                reason = f"it cannot be started: {error.strerror or error}"
            else:
                reason = _exit_reason(await _ended(process))
            if monotonic() - began >= _RAN_WELL_S:
                pause_s = _FIRST_PAUSE_S
            told = "telemetry is not read and built: %s. Next try in %g s"
            KEEPER_LOG.error(told, reason, pause_s)
            await asyncio.to_thread(self._raise_alert, reason)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _raise_alert(self, reason: str) -> None:
        """Raise the alert, unless the process itself has done it and said more."""
        alert = reported(NOT_CURRENT, KEEP_CURRENT, f"Its process has ended: {reason}")
        try:
            raise_alert(self._installation.stores, alert, self._installation.clock(), KEEPER_LOG)
        except LedgerError as error:
            KEEPER_LOG.warning("the ledger cannot be used: %s", error)


async def _ended(process: Process) -> int:
    """Wait for the end of the process, or end it when the service ends; return its code."""
    try:
        return await process.wait()
    except asyncio.CancelledError:
        if process.stdin is not None:
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), _SECONDS_TO_END)
        except TimeoutError:
            process.kill()
            await process.wait()
        raise


def _exit_reason(code: int) -> str:
    return f"ended by signal {-code}" if code < 0 else f"exit code {code}"


LOG = logging.getLogger(__name__)

_TRIGGER = "service"

_TRY_OTHERS_S = 60.0
"""Seconds until requests that could not be served here are tried again: others may judge then."""


@dataclass(slots=True)
class ScoringWorker:
    """A thread that judges requested sessions, from ``start`` to ``stop``.

    Attributes:
        stores: Lake, ledger and settings.
        clock: Returns the time.
        poll_seconds: Seconds between two searches for requests.
    """

    stores: Stores
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    poll_seconds: float = 2.0
    _interruption: Interruption = field(default_factory=Interruption)
    _wake: threading.Event = field(default_factory=threading.Event)
    _is_stopped: bool = False
    _others: set[str] = field(default_factory=set)
    _others_since_s: float = field(default_factory=time.monotonic)
    _breakers: SharedBreakers = field(init=False)
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self._breakers = SharedBreakers(self.stores.settings)
        self._thread = threading.Thread(target=self._work, name="scoring-requests")

    def start(self) -> None:
        """Start; a worker is started once."""
        self._thread.start()

    def stop(self) -> None:
        """Let judgments in progress wait for the next judge, with the replies received so far.

        Those who follow them get an event.
        """
        self._is_stopped = True
        self._interruption.set()
        self._wake.set()
        self._thread.join()

    def notify(self) -> None:
        """Look for requests now."""
        self._wake.set()

    def _work(self) -> None:
        while not self._is_stopped:
            self._wake.clear()
            pause_s = self.poll_seconds
            try:
                if self._serve():
                    pause_s = LET_GO_S
            except LockTimeoutError:
                pass  # the process that judges now serves them
            except asyncio.CancelledError:
                LOG.info("requests are left to the next start")
            except Exception:
                LOG.exception("requests are not judged. They are read again")
            self._wake.wait(pause_s)

    def _serve(self) -> bool:
        """Judge what was requested; return whether it has let go of the lock for another judge."""
        stores, now = self.stores, self.clock()
        if stores.settings.why_no_judge is not None:
            return False
        is_to_try_others = time.monotonic() - self._others_since_s >= _TRY_OTHERS_S
        if is_to_try_others:
            self._others_since_s = time.monotonic()
        asked = {request.score_id for request in ScoreStore(stores.ledger).requests(now)}
        if not asked or (asked <= self._others and not is_to_try_others):
            return False
        run = JudgeRun(
            stores,
            load_plans(stores, now),
            RunRequest(_TRIGGER),
            self.clock,
            interruption=self._interruption,
            breakers=self._breakers,
            let_go_for=self._others,
        )
        report = run.serve()
        note_judge(stores, report, self.clock(), LOG)
        return report.deferred[LeftOpenReason.YIELDED] > 0


_LOOK_FOR_DAMAGE_EVERY_S = 600.0


class Live:
    """What one service runs: event hub, scoring worker, look for damaged files, and the keeper.

    At its start it also reads the rows that pages show, so that the first page needs not wait.
    """

    def __init__(
        self, installation: Installation, kept: Kept, keeper: Keeper | None = None
    ) -> None:
        self.hub = EventHub(installation.stores.ledger, waiting=kept.reviews.waiting)
        self._installation, self._kept = installation, kept
        self._worker: ScoringWorker | None = None
        self.keeps_current = keeper is not None
        self._keeping = nullcontext() if keeper is None else keeper.running()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run all of it meanwhile; at the end it is stopped as by ``stop``."""
        looking, reading = _beside(self._look_for_damage()), _beside(self._read_rows())
        async with self.hub.running(), reading, looking, self._keeping:
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
        """Release the judgments in progress, and send those who follow them the event of it.

        The rest of the service ends in good order even if the ledger cannot be used.
        """
        if self._worker is not None:
            await asyncio.to_thread(self._worker.stop)
            try:
                await self.hub.deliver()
            except LedgerError as error:
                LOG.warning("the last events are not sent: %s", error)

    async def _read_rows(self) -> None:
        try:
            await asyncio.to_thread(self._kept.warm, self._installation.clock())
        except UserError as error:
            LOG.warning("the tables cannot be read: %s", error)

    async def _look_for_damage(self) -> None:
        """Look now and then, and note what is found in the ledger, from where pages show it."""
        while True:
            try:
                await asyncio.to_thread(find_damage, self._installation.stores)
            except UserError as error:
                LOG.warning("the tables could not be checked for damage: %s", error)
            await asyncio.sleep(_LOOK_FOR_DAMAGE_EVERY_S)

    def notify(self) -> None:
        """Let the worker look for requests now."""
        if self._worker is not None:
            self._worker.notify()


@asynccontextmanager
async def _beside(work: Awaitable[None]) -> AsyncIterator[None]:
    """Do some work meanwhile, and cancel it at the end."""
    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def live_of(connection: HTTPConnection) -> Live:
    """Return what runs next to the routes; a dependency of routes."""
    live: Live = connection.app.state.live
    return live
