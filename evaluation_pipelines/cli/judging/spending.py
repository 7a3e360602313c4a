"""What the judge has spent today, and what it may spend."""

from datetime import datetime

from evaluation_pipelines.judging.ledger.day_budget import spent_today
from evaluation_pipelines.storage.stores import Stores


def spending_line(stores: Stores, now: datetime) -> str:
    """Return the money of the day and the limits of the settings in one line."""
    settings = stores.settings
    said = f"judge: ${spent_today(stores.ledger, now):.4f} spent or reserved today (UTC)"
    limits = settings.judge_limits
    if limits:
        return f"{said}, limits: {limits}"
    why_not = settings.why_no_judge
    return f"{said}, {why_not or 'no limit is set: EVAL_JUDGE_MAX_COST_PER_DAY_USD sets one'}"
