"""Scoring of the anchors of a change by its former and its new judge, and its estimated cost."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

import polars as pl
import sqlalchemy as sa

from evaluation_pipelines.judge_changes.anchors import (
    IS_SCORED,
    JudgeHistory,
    anchor_plan,
    draw_anchors,
    drawing_of,
    has_scored,
    read_anchors,
    read_frame,
    sides_of,
)
from evaluation_pipelines.judge_changes.domain.judge_change import ANCHORS, SAMPLES
from evaluation_pipelines.judge_changes.domain.judges import JUDGE, Change, Judge, sessions_of
from evaluation_pipelines.judging.domain.budget import Budget, Usage
from evaluation_pipelines.judging.domain.due import Window
from evaluation_pipelines.judging.endpoint.client import Wire
from evaluation_pipelines.judging.endpoint.configured import judge_budget_limits, judge_pricing
from evaluation_pipelines.judging.find_due import Candidate
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import JudgePlan, load_plans
from evaluation_pipelines.judging.report import JudgeReport, LeftOpenReason
from evaluation_pipelines.judging.run import RunStores, judge_by, judge_in_turns, utc_now
from evaluation_pipelines.judging.session_windows import WindowKey
from evaluation_pipelines.progress import Progress, Silent
from evaluation_pipelines.schemas import CONTENT_KEY
from evaluation_pipelines.storage.ledger.engine import writing
from evaluation_pipelines.storage.ledger.tables.judging import ANCHOR_SCORES, JUDGE_BRIDGES
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.storage.stores import Stores

_PROBES = 3
"""Anchors by which both judges are tried while one of them has scored none yet."""


@dataclass(slots=True)
class AnchorReport:
    """What a run did.

    Attributes:
        anchors: Anchors that count.
        finished: Those that both judges have scored.
        judged: Counts of all calls.
        refusal: Why one of the judges cannot be called; ``None`` if both answer.
    """

    anchors: int = 0
    finished: int = 0
    judged: JudgeReport = field(default_factory=JudgeReport)
    refusal: str | None = None

    @property
    def is_finished(self) -> bool:
        """Whether both judges have scored all anchors."""
        return 0 < self.anchors == self.finished

    @property
    def problems(self) -> list[str]:
        """Why the run did not finish, each reason once."""
        judged = self.judged
        reasons = [self.refusal, judged.stop_reason, *judged.explanations.values(), *judged.failed]
        return [reason for reason in dict.fromkeys(reasons) if reason]


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
    _report: AnchorReport = field(default_factory=AnchorReport)
    _let_go_for: set[str] = field(default_factory=set)

    def run(self) -> AnchorReport:
        """Draw anchors if there are none, and score what is not scored yet, within the budget.

        Raises:
            NoBridgeError: A judge cannot be asked again, or there is no session to draw.
            LockTimeoutError: Another process judges.
            LakeError: A file cannot be read.
            LedgerError: The ledger cannot be used.
        """
        stores, report = self.stores, self._report
        plans = {side: anchor_plan(stores, judge) for side, judge in self.change.judges.items()}
        limits = judge_budget_limits(stores.settings)
        amounts = [limit for limit in (limits.max_run_usd, self.max_cost_usd) if limit is not None]
        money = min(amounts, default=None)
        budget = Budget(replace(limits, max_sessions=None, max_run_usd=money))

        def score(hold: Hold) -> bool:
            report.judged.take_yielded()
            while self._round(hold, plans, budget):
                pass
            anchors = read_anchors(stores.ledger, self.change)
            anchors = anchors.filter(pl.col("replaced_because").is_null())
            report.anchors, report.finished = anchors.height, anchors.filter(IS_SCORED).height
            return self._has_yielded and not report.is_finished

        judge_in_turns(stores.ledger, 0.0, score, self._let_go_for)
        if report.is_finished:
            report.judged.take_yielded()
        return report

    @property
    def _has_yielded(self) -> bool:
        return LeftOpenReason.YIELDED in self._report.judged.explanations

    def _round(self, hold: Hold, plans: dict[str, JudgePlan], budget: Budget) -> bool:
        """Score the anchors by both judges; return whether another round may do more.

        While a judge has never scored, both are tried on a few: the endpoint may refuse one.
        """
        stores, change = self.stores, self.change
        anchors, windows = draw_anchors(stores, self.history, change, self.clock())
        can_score = {
            side: has_scored(stores.ledger, judge) for side, judge in change.judges.items()
        }
        most = None if all(can_score.values()) else _PROBES
        steps = dict[str, JudgeReport]()
        for side, judge in change.judges.items():
            wanted = anchors.filter(pl.col(f"{side}_score").is_null())
            candidates = self._candidates(wanted, windows, judge, plans[side])[:most]
            steps[side] = self._score(hold, candidates, budget)
            if self._has_yielded:
                return False
            can_score[side] |= bool(steps[side].totals)
        if most is not None:
            self._note_refusal(steps, can_score)
        has_ended = any(step.totals or step.failed for step in steps.values())
        is_stopped = any(step.stop_reason or step.deferred for step in steps.values())
        return all(can_score.values()) and has_ended and not is_stopped

    def _score(self, hold: Hold, candidates: list[Candidate], budget: Budget) -> JudgeReport:
        """Score candidates of one judge."""
        step = JudgeReport(candidates=len(candidates))
        if candidates:
            stores, scores = self.stores, ScoreStore(self.stores.ledger, ANCHOR_SCORES, hold)
            plans = load_plans(stores, self.clock())
            places = stores, plans, scores, hold, self.clock, self.wire
            run = RunStores(*places, let_go_for=self._let_go_for)
            by, judge_all = self.triggered_by, lambda runner: runner.judge(candidates)
            judge_by(run, budget, step, by, self.progress, judge_all)
        self._report.judged.add(step)
        return step

    def _candidates(
        self,
        anchors: pl.DataFrame,
        windows: dict[WindowKey, Window],
        judge: Judge,
        plan: JudgePlan,
    ) -> list[Candidate]:
        """Return anchors to be scored by a judge, those in progress first."""
        begun = {
            tuple(getattr(score, name) for name in CONTENT_KEY): score
            for score in ScoreStore(self.stores.ledger, ANCHOR_SCORES).open_scores()
            if judge == Judge(*(getattr(score, name) for name in JUDGE))
        }
        keys = sorted(anchors.select(CONTENT_KEY).iter_rows(), key=lambda key: key not in begun)
        return [Candidate(windows[key[:2]], plan, None, begun.get(key)) for key in keys]

    def _note_refusal(self, steps: dict[str, JudgeReport], can_score: dict[str, bool]) -> None:
        """Note which judge the endpoint refuses while it answers the other one, or none."""
        refusal = None
        for side, other in (("former", "new"), ("new", "former")):
            step, judge = steps[side], self.change.judges[side]
            why = step.problem if step.is_endpoint_down else next(iter(step.failed), None)
            if not can_score[side] and steps[other].totals and why is not None:
                refusal = f"the {side} judge, {judge.model}, was refused: {why}"
        if refusal is None and not all(can_score.values()):
            return
        self._report.refusal = refusal
        update = sa.update(JUDGE_BRIDGES).values(refusal=refusal)
        with writing(self.stores.ledger.engine) as connection:
            connection.execute(update.where(JUDGE_BRIDGES.c.change_id == self.change.change_id))


_TOKENS = ("input_tokens", "cached_tokens", "output_tokens")


def estimate_cost(
    stores: Stores, history: JudgeHistory, change: Change, now: datetime
) -> tuple[int, int, float | None]:
    """Estimate the cost from the tokens that the former judge took for sessions of these dates.

    Returns:
        The number of anchors, the calls that are left without reminders and retries, and their cost
        in US dollars: ``None`` if a price or the tokens of such calls are unknown.

    Raises:
        LakeError: A file cannot be read.
        LedgerError: The ledger cannot be used.
    """
    dates = sides_of(change, now)[0]
    anchors = read_anchors(stores.ledger, change).filter(pl.col("replaced_because").is_null())
    number = anchors.height
    if drawing_of(stores.ledger, change) is None:
        number = min(ANCHORS, read_frame(stores, history, change, dates, now)[0].height)
    usage = _call_usage(sessions_of(history.scores, change.former, *dates))
    calls, costs = 0, list[float | None]()
    for side, judge in change.judges.items():
        left = SAMPLES * (number - anchors[f"{side}_score"].count())
        pricing = judge_pricing(stores.settings, judge.model, now)
        price = None if usage is None else pricing.cost_usd(usage)
        calls += left
        costs.append(None if price is None else left * price)
    known = [cost for cost in costs if cost is not None]
    return number, calls, sum(known) if len(known) == len(costs) else None


def _call_usage(scores: pl.DataFrame) -> Usage | None:
    """Return the mean tokens of a call; ``None`` if the endpoint reported none.

    A judgment has one call per sample and one about missing tools.
    """
    known = scores.drop_nulls([*_TOKENS, "sample_totals"])
    if known.is_empty():
        return None
    calls = sum(len(json.loads(total)) + 1 for total in known["sample_totals"])
    sums = known.select(pl.col(_TOKENS).sum()).row(0)
    return Usage(*(round(total / calls) for total in sums))
