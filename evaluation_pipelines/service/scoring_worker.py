"""Worker that scores what was requested, with the leases and budgets of any judge run.

It finds requests in the ledger, so those of other processes and of an earlier start as well.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from evaluation_pipelines.alerts.judge_answers import note_judge
from evaluation_pipelines.judging.domain.batch.requests import batch_of
from evaluation_pipelines.judging.domain.score import Score
from evaluation_pipelines.judging.find_due import is_abandoned
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import load_plans
from evaluation_pipelines.judging.runner.judge_run import JudgeRun, RunRequest
from evaluation_pipelines.judging.termination import Interruption
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.storage.stores import Stores

LOG = logging.getLogger("evaluation_pipelines.service.scoring")

_TRIGGER = "service"
_MAX_THREADS = 8
"""Requests that are worked on at the same time; each has the calls of one session."""

_FIRST_DELAY, _LONGEST_DELAY = timedelta(seconds=15), timedelta(minutes=10)


@dataclass(slots=True)
class _Deferral:
    """A request that could not be finished: when to try again."""

    until: datetime
    delay: timedelta


@dataclass(slots=True)
class ScoringWorker:
    """Threads that judge requested sessions, from ``start`` to ``stop``.

    Attributes:
        stores: Lake, ledger and settings.
        clock: Returns the time.
        poll_seconds: Seconds between two searches for requests of other processes.
    """

    stores: Stores
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    poll_seconds: float = 5.0
    _interruption: Interruption = field(default_factory=Interruption)
    _wake: threading.Event = field(default_factory=threading.Event)
    _is_stopped: bool = False
    _busy: set[str] = field(default_factory=set)
    _deferred: dict[str, _Deferral] = field(default_factory=dict)
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._work, name="scoring-requests")

    def start(self) -> None:
        """Start; a worker is started once."""
        self._thread.start()

    def stop(self) -> None:
        """Release the scorings in progress, with the replies received so far.

        After a kill their leases expire.
        """
        self._is_stopped = True
        self._interruption.set()
        self._wake.set()
        self._thread.join()

    def notify(self) -> None:
        """Look for requests now."""
        self._wake.set()

    def _work(self) -> None:
        threads = min(_MAX_THREADS, self.stores.settings.judge_concurrency)
        with ThreadPoolExecutor(threads, "scoring") as pool:
            while not self._is_stopped:
                self._wake.clear()
                try:
                    for score in self._find():
                        self._busy.add(score.score_id)
                        pool.submit(self._judge, score)
                except Exception:
                    LOG.exception("requests could not be read; they are read again")
                self._wake.wait(self.poll_seconds)

    def _find(self) -> list[Score]:
        """Return the requests that no process works on, oldest first."""
        if self.stores.settings.why_no_judge is not None:
            return []
        now = self.clock()
        unfinished = ScoreStore(self.stores.ledger).open_scores()
        return [
            each
            for each in unfinished
            if each.is_request
            and is_abandoned(each, now)
            and batch_of(each.lease_owner) is None
            and each.score_id not in self._busy
            and not self._is_deferred(each.score_id, now)
        ]

    def _is_deferred(self, score_id: str, now: datetime) -> bool:
        deferral = self._deferred.get(score_id)
        return deferral is not None and now < deferral.until

    def _judge(self, score: Score) -> None:
        try:
            self._run(score)
        except asyncio.CancelledError:  # stopped: another process finishes it, or the next start
            LOG.info("scoring %s is released", score.score_id)
        except Exception:
            LOG.exception("scoring %s failed", score.score_id)
            self._defer(score.score_id)
        finally:
            self._busy.discard(score.score_id)

    def _run(self, score: Score) -> None:
        if self._is_stopped:
            return
        request = RunRequest(_TRIGGER, window=(score.organization_id, score.session_key))
        plans = load_plans(self.stores, self.clock())
        run = JudgeRun(self.stores, plans, request, self.clock, interruption=self._interruption)
        report = run.run([score.session_date])
        note_judge(self.stores, report, self.clock(), LOG)
        found = ScoreStore(self.stores.ledger).get(score.score_id)
        if not found.is_open:
            # The tables of the date get the score with the next build.
            RebuildQueue(self.stores.ledger).touch({found.session_date}, self.clock())
            self._deferred.pop(score.score_id, None)
        elif is_abandoned(found, self.clock()):
            LOG.warning("scoring %s is not finished: %s", score.score_id, report.summary())
            reason = report.stop_reason or next(iter(report.explanations.values()), None)
            self._defer(score.score_id)
            scores = ScoreStore(self.stores.ledger)
            scores.log_deferral(score.score_id, reason or report.summary(), self.clock())

    def _defer(self, score_id: str) -> None:
        """Try again later, each time after twice the time."""
        known = self._deferred.get(score_id)
        delay = _FIRST_DELAY if known is None else min(2 * known.delay, _LONGEST_DELAY)
        self._deferred[score_id] = _Deferral(self.clock() + delay, delay)
