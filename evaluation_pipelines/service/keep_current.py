"""The process that keeps the data current: it reads, builds and publishes what arrives.

A service starts it as a child (see ``keeper``): people who only look at pages need no scheduler.
It takes the same locks as Dagster and the terminal, so that all of them may run at the same time,
and it may be killed at any moment.
"""

import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from threading import Event, Thread
from time import monotonic, process_time

from evaluation_pipelines.attention.alert_store import AlertStore
from evaluation_pipelines.attention.checks import check_items
from evaluation_pipelines.attention.domain.messages import (
    NOT_CURRENT,
    NOT_PUBLISHED,
    reported,
)
from evaluation_pipelines.attention.send import raise_alert
from evaluation_pipelines.build import Build, DateFailed
from evaluation_pipelines.errors import UserError
from evaluation_pipelines.evaluations.deliveries import receiver_names
from evaluation_pipelines.people.identity_store import identities_fingerprint, sync_identities
from evaluation_pipelines.profiles.sync import files_fingerprint, sync_profiles
from evaluation_pipelines.reporting.analysts_database import AnalyticsError
from evaluation_pipelines.reporting.publish import refresh_published
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.lake import LakeError
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.lock import KEEP_CURRENT, Hold, LockTimeoutError, held
from evaluation_pipelines.storage.queries import remove_spilled
from evaluation_pipelines.storage.stores import Stores, open_stores
from evaluation_pipelines.telemetry.ingest import Ingest
from evaluation_pipelines.telemetry.otel_logs import look_at_rows

LOG = logging.getLogger("evaluation_pipelines.service.keep_current")

_LOOK_EVERY_S = 1.0
_SHARE_OF_CORE = 0.005
"""Share of a core that polling may use: with very many files it polls less often."""

_LONGEST_PAUSE_S = 10.0

_TRY_LOCK_EVERY_S = 5.0
_MINUTE_S = 60.0
_SEND_EVERY_S = 30.0
_PUBLISH_SHARE = 0.2
"""Share of a core that publishing may use: one that takes 2 s is followed by 10 s without."""

_HOUR_S = 3600


@dataclass(slots=True)
class CurrentData:
    """Reads, builds and publishes new data, step by step; ``clock`` returns the time."""

    stores: Stores
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    _read: tuple[object, ...] | None = field(default=None, init=False)
    _registered: str | None = field(default=None, init=False)
    _rows: str | None = field(default=None, init=False)
    _rows_at: float = field(default=float("-inf"), init=False)
    _publish_at: float = field(default=0.0, init=False)

    def step(self) -> bool:
        """Read, build and publish once; return whether there was any work.

        Raises:
            UserError: A store cannot be used. Another step continues where this one stopped.
        """
        # Taken before the files are listed: the next step handles later changes.
        looks = self._looks()
        is_new = looks != self._read
        if is_new and self._ingest():
            self._read = looks
        self._register()
        is_due = self._build()
        return self._publish() or is_new or is_due

    def _looks(self) -> tuple[object, ...]:
        """Return what changes with new telemetry.

        Each hour all files are listed: an incomplete line is read when its file no longer grows.
        """
        hour = int(self.clock().timestamp()) // _HOUR_S
        has_rows = self.stores.settings.otel_logs_dsn is not None
        if has_rows and monotonic() - self._rows_at >= _MINUTE_S:
            self._rows, self._rows_at = look_at_rows(self.stores), monotonic()
        return self.stores.landing.fingerprint(), self._rows, hour

    def _ingest(self) -> bool:
        """Read what is new; return whether all of it was read."""
        report = Ingest(self.stores, self.clock, with_otel_logs=True).run()
        why_not = report.busy or (report.otel_logs.why_not if report.otel_logs else None)
        if why_not is not None:
            LOG.warning("not all telemetry was read, retrying: %s", why_not)
        if report.counts.lines:
            LOG.info("read %d lines of %d files", report.counts.lines, report.files)
        return why_not is None

    def _register(self) -> None:
        """Register changed profiles and identities: dates that they change are due."""
        settings = self.stores.settings
        profiles = files_fingerprint(settings.profiles_dir)
        seen = f"{profiles} {identities_fingerprint(settings.identities_path)}"
        if seen == self._registered:
            return
        try:
            faults = [*sync_profiles(self.stores, self.clock()).faults]
            faults.append(sync_identities(self.stores, self.clock()).fault or "")
        except LakeError as error:  # dates are built all the same
            faults = [f"judge profiles or identities cannot be registered now: {error}"]
        self._registered = seen
        for fault in filter(None, faults):
            LOG.warning("%s", fault)

    def _build(self) -> bool:
        """Build the dates that are due; return whether there were any."""
        began, job = monotonic(), Build(self.stores, clock=self.clock, only_due=True)
        dates = job.pending_dates()
        if not dates:
            return False
        results = job.run(dates)
        failed = [result for result in results if isinstance(result, DateFailed)]
        for failure in failed:
            LOG.warning("not built: %s", failure)
        if any(failure.parked for failure in failed):
            check_items(self.stores, self.clock(), LOG)
        tried = {result.session_date for result in results}
        if others := set(dates) - tried:
            LOG.info("another process has built %s meanwhile", _shown(others))
        if built := tried - {failure.session_date for failure in failed}:
            LOG.info("built %s in %.1f s", _shown(built), monotonic() - began)
        return True

    def _publish(self) -> bool:
        """Publish if the tables have changed and the last publish is old enough."""
        if monotonic() < self._publish_at or Manifest(self.stores.ledger).is_published():
            return False
        began = process_time()
        failed = dict[str, str]()
        try:
            failed = refresh_published(self.stores, self.clock()).failed
        except AnalyticsError as error:
            failed = {"the analysts' database": str(error)}
        used = process_time() - began
        self._publish_at = monotonic() + (_MINUTE_S if failed else used / _PUBLISH_SHARE)
        if failed:
            reason = "; ".join(f"{name}: {why}" for name, why in failed.items())
            alert = reported(NOT_PUBLISHED, KEEP_CURRENT, reason)
            raise_alert(self.stores, alert, self.clock(), LOG)
        else:
            AlertStore(self.stores.ledger).end(NOT_PUBLISHED, [KEEP_CURRENT], self.clock())
            LOG.info("published in %.1f s of a core", used)
        return True


def _shown(days: set[date]) -> str:
    first, *_, last = [*sorted(days), max(days)]
    return f"{first}" if first == last else f"{len(days)} dates from {first} to {last}"


def run(stores: Stores, stopped: Event) -> None:
    """Keep the data current until ``stopped``; one process at a time does, others wait.

    Raises:
        UserError: A store cannot be used.
    """
    is_waiting = False
    while not stopped.is_set():
        try:
            with held(stores.ledger, KEEP_CURRENT) as hold:
                LOG.info("telemetry is read, built and published as it arrives")
                _run(CurrentData(stores), hold, stopped)
        except LockTimeoutError as error:
            if error.name != KEEP_CURRENT:
                raise
            if not is_waiting:
                LOG.info("another service keeps the data current, this one waits: %s", error)
            is_waiting = True
            stopped.wait(_TRY_LOCK_EVERY_S)


def _run(data: CurrentData, hold: Hold, stopped: Event) -> None:
    checked = None
    while not stopped.is_set():
        began = process_time()
        had_work = data.step()
        used = process_time() - began
        if checked is None:
            AlertStore(data.stores.ledger).end(NOT_CURRENT, [KEEP_CURRENT], data.clock())
        if checked is None or monotonic() - checked > _MINUTE_S:
            hold.check()  # notes progress, too
            checked = monotonic()
        # Not the time that passed: on a busy machine it would be long twice.
        pause_s = used if had_work else used / _SHARE_OF_CORE
        stopped.wait(min(max(_LOOK_EVERY_S, pause_s), _LONGEST_PAUSE_S))


def main() -> None:
    """Run until the parent ends, for any reason: its end of standard input closes then."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    os.nice(5)  # pages go first
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    Thread(target=_end_with_parent, daemon=True).start()
    with open_stores(load_settings()) as stores:
        # A slow receiver must not hold up what is read and built.
        Thread(target=send_on, args=[stores, Event()], daemon=True).start()
        try:
            run(stores, Event())
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            alert = reported(NOT_CURRENT, KEEP_CURRENT, reason)
            raise_alert(stores, alert, datetime.now(UTC), LOG)
            raise


def send_on(stores: Stores, stopped: Event) -> None:
    """Send evaluations from time to time until ``stopped``, if there is a receiver."""
    if not receiver_names(stores.settings):
        return
    from evaluation_pipelines.evaluations.send import send_evaluations  # slow to import

    while not stopped.wait(_SEND_EVERY_S):
        try:
            with suppress(LockTimeoutError):  # Dagster or a terminal sends
                send_evaluations(stores, lambda: datetime.now(UTC))
        except UserError as error:
            LOG.warning("evaluations cannot be sent now: %s", error)


def _end_with_parent() -> None:
    while sys.stdin.buffer.read(1):
        pass
    remove_spilled()
    os._exit(0)  # at once: unfinished work is repeated, as after a kill


if __name__ == "__main__":
    main()
