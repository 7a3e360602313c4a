"""Scoring of the anchors of a change by its former and its new judge, and its estimated cost."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import polars as pl

from evaluation_pipelines.judge_changes.anchors import (
    AnchorKey,
    AnchorStore,
    DrawnAnchors,
    JudgeHistory,
    anchor_plan,
    anchor_scorings,
    draw_anchors,
    read_frame,
    sides_of,
)
from evaluation_pipelines.judge_changes.domain.drawing import ANCHORS, SAMPLES
from evaluation_pipelines.judge_changes.domain.judge_change import AnchorScorings
from evaluation_pipelines.judge_changes.domain.judges import JUDGE, Change, Judge, sessions_of
from evaluation_pipelines.judging.domain.budget import Budget, Usage
from evaluation_pipelines.judging.endpoint.client import Wire
from evaluation_pipelines.judging.endpoint.configured import judge_budget_limits, judge_pricing
from evaluation_pipelines.judging.find_due import Candidate
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import JudgePlan, load_plans
from evaluation_pipelines.judging.report import JudgeReport, LeftOpenReason
from evaluation_pipelines.judging.run import (
    RunStores,
    judge_by,
    judge_in_turns,
    utc_now,
)
from evaluation_pipelines.progress import Progress, Silent
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines.storage.ledger.tables.judging import ANCHOR_SCORES
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.storage.stores import Stores

_PROBES = 3
"""Anchors by which a judge that has scored none yet is tried."""


@dataclass(slots=True)
class AnchorReport:
    """What a run did.

    Attributes:
        anchors: Anchors that count.
        finished: Those that both judges have scored.
        reports: Report of each step.
        refusal: Why one of the judges cannot be called; ``None`` if both answer.
    """

    anchors: int = 0
    finished: int = 0
    reports: list[JudgeReport] = field(default_factory=list)
    refusal: str | None = None

    @property
    def is_finished(self) -> bool:
        """Whether both judges have scored all anchors."""
        return 0 < self.anchors == self.finished

    @property
    def calls(self) -> int:
        """Replies of the judges."""
        return sum(each.calls for each in self.reports)

    @property
    def cost_usd(self) -> float:
        """Cost of the replies with a known cost."""
        return sum(each.cost_usd for each in self.reports)

    @property
    def problems(self) -> list[str]:
        """Why the run did not finish, each reason once."""
        reasons = [
            reason
            for each in self.reports
            for reason in (each.stop_reason, *each.explanations.values(), *each.failed)
            if reason
        ]
        return list(dict.fromkeys(reasons))

    def take_yielded(self) -> None:
        """Forget that the run has let go for another judge: it goes on, or had nothing left."""
        for each in self.reports:
            each.take_yielded()


@dataclass(slots=True)
class AnchorRun:
    """One run over the anchors of a change; a later one continues where it ended.

    ``wire`` answers all requests in place of the endpoint, if given.
    """

    stores: Stores
    history: JudgeHistory
    change: Change
    triggered_by: str
    max_cost_usd: float | None = None
    progress: Progress = field(default_factory=Silent)
    clock: Callable[[], datetime] = utc_now
    wire: Wire | None = None
    _hold: Hold = field(init=False)
    _report: AnchorReport = field(default_factory=AnchorReport)
    _tried: set[tuple[Judge, AnchorKey]] = field(default_factory=set)
    _let_go_for: set[str] = field(default_factory=set)
    _has_let_go: bool = False

    def run(self) -> AnchorReport:
        """Draw anchors if there are none, and score what is not scored yet, within the budget.

        Raises:
            NoSuchJudgeError: A judge cannot be asked again.
            NoAnchorsError: There is no session to draw.
            LockTimeoutError: Another process judges.
            LakeError: A file cannot be read.
            LedgerError: The ledger cannot be used.
        """
        stores, change = self.stores, self.change
        judges = (change.former, change.new)
        plans = {judge: anchor_plan(stores, judge) for judge in judges}
        limits = judge_budget_limits(stores.settings)
        amounts = [each for each in (limits.max_run_usd, self.max_cost_usd) if each is not None]
        money = min(amounts, default=None)
        budget = Budget(replace(limits, max_sessions=None, max_run_usd=money))
        paced = PacedProgress(self.progress)

        def score(hold: Hold) -> bool:
            self._hold, self._has_let_go = hold, False
            self._report.take_yielded()
            drawn = draw_anchors(stores, self.history, change, self.clock())
            if not self._report.anchors:
                self.progress.begin("scoring anchors", len(self._open(drawn, judges)))
            while self._round(drawn, plans, budget, paced):
                drawn = draw_anchors(stores, self.history, change, self.clock())
            self._count(drawn)
            return self._has_let_go and not self._report.is_finished

        judge_in_turns(stores.ledger, 0.0, score, self._let_go_for)
        if self._report.is_finished:
            self._report.take_yielded()
        return self._report

    def _round(
        self,
        drawn: DrawnAnchors,
        plans: dict[Judge, JudgePlan],
        budget: Budget,
        progress: Progress,
    ) -> bool:
        """Score the anchors by both judges; return whether another round may do more."""
        todo = {judge: list(self._candidates(drawn, judge, plan)) for judge, plan in plans.items()}
        if not any(todo.values()):
            return False
        for judge, candidates in todo.items():
            if not self._score_by(judge, candidates, budget, progress):
                if not self._has_let_go:
                    self._note_refusal(judge, todo, budget, progress)
                return False
        AnchorStore(self.stores.ledger).note_refusal(self.change.change_id, None)
        return True

    def _score_by(
        self, judge: Judge, candidates: Sequence[Candidate], budget: Budget, progress: Progress
    ) -> bool:
        """Score all candidates by one judge; return False if the run cannot go on.

        A judge that has not scored any anchor yet is tried on a few first.
        """
        if self._has_scored(judge):
            return self._score(judge, candidates, budget, progress)
        first, rest = candidates[:_PROBES], candidates[_PROBES:]
        if not self._score(judge, first, budget, progress):
            return False
        if first and not self._has_scored(judge):
            return False
        return self._score(judge, rest, budget, progress)

    def _note_refusal(
        self,
        judge: Judge,
        todo: Mapping[Judge, Sequence[Candidate]],
        budget: Budget,
        progress: Progress,
    ) -> None:
        """Note that the endpoint refuses a judge, if the other judge is answered."""
        last = self._report.reports[-1]
        reason = last.stop_reason if last.is_endpoint_down else next(iter(last.failed), None)
        (other,) = (each for each in todo if each != judge)
        untried = [each for each in todo[other] if (other, _key(each)) not in self._tried]
        if reason is None or not untried:
            return
        self._score(other, untried[:1], budget, progress)
        if self._report.reports[-1].totals:
            which = "former" if judge == self.change.former else "new"
            self._report.refusal = f"the {which} judge, {judge.model}, was refused: {reason}"
            store = AnchorStore(self.stores.ledger)
            store.note_refusal(self.change.change_id, self._report.refusal)

    def _score(
        self, judge: Judge, candidates: Sequence[Candidate], budget: Budget, progress: Progress
    ) -> bool:
        """Score candidates by one judge; return False if the run was stopped."""
        if not candidates:
            return True
        scores = ScoreStore(self.stores.ledger, ANCHOR_SCORES, self._hold)
        report = JudgeReport(candidates=len(candidates))
        self._report.reports.append(report)
        tried_before, now_tried = self._tried, {(judge, _key(each)) for each in candidates}
        self._tried = tried_before | now_tried
        plans = load_plans(self.stores, self.clock())
        run = RunStores(
            *(self.stores, plans, scores, self._hold, self.clock, self.wire),
            let_go_for=self._let_go_for,
        )
        by, judge_all = self.triggered_by, lambda runner: runner.judge(candidates)
        judge_by(run, budget, report, by, progress, judge_all)
        # Also if all calls of this step were in flight by then: other steps may be left.
        self._has_let_go = LeftOpenReason.YIELDED in report.explanations
        if self._has_let_go:
            self._tried = tried_before
            return False
        return report.stop_reason is None and not report.deferred

    def _candidates(
        self, drawn: DrawnAnchors, judge: Judge, plan: JudgePlan
    ) -> Iterator[Candidate]:
        """Yield the anchors that a judge has not scored, those in progress first."""
        unfinished = self._unfinished(judge)
        wanted = self._open(drawn, (judge,))
        ordered = sorted(wanted, key=lambda pair: pair[1] not in unfinished)
        for _, key in ordered:
            window = drawn.windows.get(key[:2])
            if window is not None and (judge, key) not in self._tried:
                yield Candidate(window, plan, None, unfinished.get(key))

    def _unfinished(self, judge: Judge) -> dict[AnchorKey, Score]:
        open_scores = ScoreStore(self.stores.ledger, ANCHOR_SCORES).open_scores()
        return {
            (each.organization_id, each.session_key, each.content_hash): each
            for each in open_scores
            if _judge(each) == judge
        }

    def _open(self, drawn: DrawnAnchors, judges: Sequence[Judge]) -> list[tuple[Judge, AnchorKey]]:
        """Return the anchors that judges have not scored."""
        scorings = {judge: self._scorings(judge) for judge in judges}
        keys = [(*each.session.key, each.session.content_hash) for each in drawn.anchors]
        return [
            (judge, key) for judge in judges for key in keys if not _is_scored(scorings[judge], key)
        ]

    def _has_scored(self, judge: Judge) -> bool:
        return any(each.totals for each in self._scorings(judge).values())

    def _scorings(self, judge: Judge) -> dict[AnchorKey, AnchorScorings]:
        return anchor_scorings(self.stores.ledger, judge)

    def _count(self, drawn: DrawnAnchors) -> None:
        unscored = {key for _, key in self._open(drawn, (self.change.former, self.change.new))}
        self._report.anchors = len(drawn.anchors)
        self._report.finished = len(drawn.anchors) - len(unscored)


class PacedProgress:
    """Progress of all steps as one bar, which adds the rate to every detail."""

    def __init__(self, shown: Progress) -> None:
        self._shown, self._done, self._began = shown, 0, time.monotonic()

    def begin(self, what: str, total: int) -> None:
        """Do nothing when a step begins: the bar of all has begun already."""

    def advance(self, units: int) -> None:
        """Advance by ``units``."""
        self._done += units
        self._shown.advance(units)

    def tell(self, detail: str) -> None:
        """Show a detail and the rate."""
        rate = self._done / max(time.monotonic() - self._began, 1e-9)
        self._shown.tell(f"{detail}, {60 * rate:.0f} a minute")


def _key(candidate: Candidate) -> AnchorKey:
    window = candidate.window
    return window.organization_id, window.session_key, window.content_hash


def _judge(score: Score) -> Judge:
    return Judge(*(getattr(score, name) for name in JUDGE))


def _is_scored(scorings: dict[AnchorKey, AnchorScorings], key: AnchorKey) -> bool:
    found = scorings.get(key)
    return found is not None and bool(found.totals)


_TOKENS = ("input_tokens", "cached_tokens", "output_tokens")


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """What the anchors of a change will take.

    Attributes:
        anchors: Number of anchors.
        calls: Calls that are left, without reminders and retries.
        cost_usd: Their cost; ``None`` if a price or the tokens of such calls are unknown.
    """

    anchors: int
    calls: int
    cost_usd: float | None


def estimate_cost(
    stores: Stores, history: JudgeHistory, change: Change, now: datetime
) -> CostEstimate:
    """Estimate the cost from the tokens that the former judge took for sessions of these dates.

    Raises:
        LakeError: A file cannot be read.
        LedgerError: The ledger cannot be used.
    """
    dates = sides_of(change, now)[0]
    store = AnchorStore(stores.ledger)
    drawn = [each for each in store.anchors(change.change_id) if each.replaced_because is None]
    if change.change_id in store.drawings():
        anchors = len(drawn)
    else:
        anchors = min(ANCHORS, len(read_frame(stores, history, change, dates, now)))
    usage = _call_usage(sessions_of(history.scores, change.former, *dates))
    calls, cost = 0, 0.0 if usage is not None else None
    for judge in (change.former, change.new):
        found = anchor_scorings(stores.ledger, judge)
        keys = [(*each.session.key, each.session.content_hash) for each in drawn]
        scored = sum(key in found and bool(found[key].totals) for key in keys)
        left = SAMPLES * (anchors - scored)
        calls += left
        price = _price(stores, judge, usage, now)
        cost = None if cost is None or price is None else cost + left * price
    return CostEstimate(anchors, calls, cost)


def _price(stores: Stores, judge: Judge, usage: Usage | None, now: datetime) -> float | None:
    pricing = judge_pricing(stores.settings, judge.model, now)
    return None if usage is None else pricing.cost_usd(usage)


def _call_usage(scores: pl.DataFrame) -> Usage | None:
    """Return the mean tokens of a call; ``None`` if the endpoint reported none.

    A scoring has one call per sample and one about missing tools.
    """
    known = scores.drop_nulls([*_TOKENS, "sample_totals"])
    if known.is_empty():
        return None
    calls = sum(len(json.loads(each)) + 1 for each in known["sample_totals"])
    sums = known.select(pl.col(_TOKENS).sum()).row(0)
    return Usage(*(round(each / calls) for each in sums))
