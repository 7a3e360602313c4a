"""What the page of a session promises of a scoring that has not ended."""

from evaluation_pipelines.judging.waiting import waiting
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines.storage.stores import Stores


def scoring_goes_on(stores: Stores, score: Score) -> str | None:
    """Return who finishes a scoring, and when; ``None`` if it has ended."""
    waits = waiting(stores, score)
    if waits is None:
        return None
    if waits.mode == "batch":
        by = waits.expected_by
        until = "" if by is None else f", which answers by {by:%Y-%m-%d %H:%M} UTC"
        return f"It waits in a batch of the judge's provider{until}."
    if score.status == "in_progress":
        return "A judge is at work on it: this takes a minute or so. You can leave the page."
    if not score.is_request:
        return "A judge run left it unfinished. The next run finishes it, or you ask for it now."
    if stores.settings.why_no_judge is not None:
        return "It was asked for, and waits until a judge is set up."
    if stores.settings.service_scoring == "dagster":
        return "It was asked for, and starts with the next judge run of Dagster."
    if waits.deferred_because is not None:
        return f"Left for later: {waits.deferred_because}"
    return "It was asked for, and starts within seconds. You can leave the page."
