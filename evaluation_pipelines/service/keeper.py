"""The child process of a service that keeps the data current: started, and started again."""

import asyncio
import logging
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic

from evaluation_pipelines.access.key_ring import KeyRing
from evaluation_pipelines.attention.domain.messages import NOT_CURRENT, reported
from evaluation_pipelines.attention.send import raise_alert
from evaluation_pipelines.service.installation import Installation
from evaluation_pipelines.storage.ledger.errors import LedgerError
from evaluation_pipelines.storage.lock import KEEP_CURRENT
from evaluation_pipelines.storage.stores import Stores

LOG = logging.getLogger("evaluation_pipelines.service.keep_current")

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
                reason = _why(await _ended(process))
            if monotonic() - began >= _RAN_WELL_S:
                pause_s = _FIRST_PAUSE_S
            LOG.error("telemetry is not read and built: %s. Next try in %g s", reason, pause_s)
            await asyncio.to_thread(self._raise_alert, reason)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _raise_alert(self, reason: str) -> None:
        """Raise the alert, unless the process itself has done it and said more."""
        alert = reported(NOT_CURRENT, KEEP_CURRENT, f"Its process has ended: {reason}")
        try:
            raise_alert(self._installation.stores, alert, self._installation.clock(), LOG)
        except LedgerError as error:
            LOG.warning("the ledger cannot be used: %s", error)


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


def _why(code: int) -> str:
    return f"ended by signal {-code}" if code < 0 else f"exit code {code}"
