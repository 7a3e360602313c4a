"""What the page of a session promises of a scoring that has not ended."""

from evaluation_pipelines.judging.score_requests import waiting
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines.storage.stores import Stores


def scoring_goes_on(stores: Stores, score: Score) -> str | None:
    """Return who finishes a scoring, and when; ``None`` if it has ended."""
    waits = waiting(stores, score)
    if waits is None:
        return None
    if waits.mode == "batch":
        by = waits.expected_by
        until = "" if by is None else f" (results by {by:%Y-%m-%d %H:%M} UTC)"
        return f"Waiting in a batch of the judge's provider{until}."
    if score.status == "in_progress":
        return "The judge is scoring it. This takes about a minute, and you can leave the page."
    if not score.is_request:
        return "A judge run left it unfinished. The next run finishes it, or request it now."
    if stores.settings.why_no_judge is not None:
        return "Requested. It waits until a judge is configured."
    if stores.settings.service_scoring == "dagster":
        return "Requested. It starts with the next Dagster judge run."
    if waits.deferred_because is not None:
        return f"{waits.next_try}. Postponed: {waits.deferred_because}"
    return "Requested. It starts within seconds, and you can leave the page."
