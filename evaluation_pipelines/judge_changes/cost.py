"""Cost of scoring the anchors of a change, estimated before it is spent."""

import json
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from evaluation_pipelines.judge_changes.domain.drawing import ANCHORS, SAMPLES
from evaluation_pipelines.judge_changes.domain.judges import Change, Judge, sessions_of
from evaluation_pipelines.judge_changes.frame import JudgeHistory, read_frame, sides_of
from evaluation_pipelines.judge_changes.ledger.anchor_scores import anchor_scorings
from evaluation_pipelines.judge_changes.ledger.anchor_store import AnchorStore
from evaluation_pipelines.judging.domain.budget.pricing import Usage
from evaluation_pipelines.judging.endpoint.configured import judge_pricing
from evaluation_pipelines.storage.stores import Stores

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
