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

from evaluation_pipelines.attention.send import note_judge
from evaluation_pipelines.formatting import one_line
from evaluation_pipelines.judging.domain.prompt.redaction import redact
from evaluation_pipelines.judging.domain.prompt.secrets.personal import PERSONAL_KINDS
from evaluation_pipelines.judging.endpoint.configured import SharedBreakers
from evaluation_pipelines.judging.ledger.score_records import Failure, Lease
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import load_plans
from evaluation_pipelines.judging.runner.judge_run import JudgeRun, RunRequest
from evaluation_pipelines.judging.runner.run_report import JudgeReport
from evaluation_pipelines.judging.termination import Interruption
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines.storage.lease_owner import new_owner
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.storage.stores import Stores

LOG = logging.getLogger("evaluation_pipelines.service.scoring")

_TRIGGER = "service"
_MAX_THREADS = 8
"""Requests that are worked on at the same time; each has the calls of one session."""

_FIRST_DELAY, _LONGEST_DELAY = timedelta(seconds=15), timedelta(minutes=10)

_MAX_WAITS = 3
"""How often a request waits for an endpoint that is down before it fails: for two minutes."""

_STOPPED = "the service was stopped; the scoring goes on when it is started again"
_ERROR = "an error in the service, which its log explains"
_LOGGED_CHARACTERS = 200


@dataclass(slots=True)
class _Deferral:
    """A request that could not be finished: when to try again, and how often it has waited."""

    until: datetime
    delay: timedelta
    waits: int


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
    _breakers: SharedBreakers = field(init=False)
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self._breakers = SharedBreakers(self.stores.settings)
        self._thread = threading.Thread(target=self._work, name="scoring-requests")

    def start(self) -> None:
        """Start; a worker is started once."""
        self._thread.start()

    def stop(self) -> None:
        """Release the scorings in progress, with the replies received so far.

        Those who follow them get an event. After a kill their leases expire.
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
        now, scores = self.clock(), ScoreStore(self.stores.ledger)
        scores.reopen_abandoned(now)
        if self.stores.settings.why_no_judge is not None:
            return []
        return [
            each
            for each in scores.open_scores()
            if each.is_request
            and each.status == "pending"
            and each.score_id not in self._busy
            and not self._is_deferred(each.score_id, now)
        ]

    def _is_deferred(self, score_id: str, now: datetime) -> bool:
        deferral = self._deferred.get(score_id)
        return deferral is not None and now < deferral.until

    def _judge(self, score: Score) -> None:
        score_id, scores = score.score_id, ScoreStore(self.stores.ledger)
        try:
            self._run(score)
        except asyncio.CancelledError:  # stopped: another process finishes it, or the next start
            LOG.info("scoring %s is released", score_id)
            scores.log_deferral(score_id, _STOPPED, self.clock())
        except Exception:
            LOG.exception("scoring %s is not finished", score_id)
            self._defer(score_id)
            scores.log_deferral(score_id, _ERROR, self.clock())
        finally:
            self._busy.discard(score_id)

    def _run(self, score: Score) -> None:
        if self._is_stopped:
            raise asyncio.CancelledError
        request = RunRequest(_TRIGGER, window=(score.organization_id, score.session_key))
        plans = load_plans(self.stores, self.clock())
        run = JudgeRun(
            self.stores,
            plans,
            request,
            self.clock,
            interruption=self._interruption,
            breakers=self._breakers,
        )
        report = run.run([score.session_date])
        note_judge(self.stores, report, self.clock(), LOG)
        found = ScoreStore(self.stores.ledger).get(score.score_id)
        if found.status == "pending":
            found = self._leave(found, report)
        if not found.is_open:
            # The tables of the date get the score with the next build.
            RebuildQueue(self.stores.ledger).touch({found.session_date}, self.clock())
            self._deferred.pop(score.score_id, None)
        if found.status == "failed":
            _warn(found)

    def _leave(self, score: Score, report: JudgeReport) -> Score:
        """Try a request again later, or fail it when its endpoint stays away."""
        score_id, scores, now = score.score_id, ScoreStore(self.stores.ledger), self.clock()
        explained = report.stop_reason or next(iter(report.explanations.values()), None)
        reason = explained or report.summary()
        LOG.warning("scoring %s of %s waits: %s", score_id, score.session_key, reason)
        if self._defer(score_id) > _MAX_WAITS and report.is_endpoint_down:
            lease = Lease(new_owner(), self.stores.settings.judge_lease_seconds)
            scores.claim(score_id, lease, now)
            return scores.fail(score_id, lease.owner, Failure(reason, retriable=True), now)
        scores.log_deferral(score_id, reason, now)
        return score

    def _defer(self, score_id: str) -> int:
        """Try again later, each time after twice the time; return how often it has waited."""
        known = self._deferred.get(score_id)
        delay = _FIRST_DELAY if known is None else min(2 * known.delay, _LONGEST_DELAY)
        waits = 1 if known is None else known.waits + 1
        self._deferred[score_id] = _Deferral(self.clock() + delay, delay, waits)
        return waits


def _warn(score: Score) -> None:
    """Log why a scoring has failed, with the beginning of the reply that could not be used."""
    reply = redact(score.failed_reply or "", personal=PERSONAL_KINDS).text
    began = one_line(reply)[:_LOGGED_CHARACTERS]
    said = f"; the judge wrote: {began}" if began else ""
    subject = score.score_id, score.session_key
    LOG.warning("scoring %s of %s failed: %s%s", *subject, score.error_message, said)
