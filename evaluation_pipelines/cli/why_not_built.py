"""What commands say of a date that could not be built."""

from evaluation_pipelines.cli.output import pluralize
from evaluation_pipelines.storage.ledger.rebuild_queue import QueuedDate


def why_not_built(due: QueuedDate) -> str:
    """Return the error of a failed date, its next attempt, and how to build it now."""
    now = f"evaluation-pipelines build --date {due.session_date}"
    next_time = due.next_attempt_at
    when = "parked" if due.parked else f"due {next_time:%H:%M} UTC" if next_time else "due"
    return (
        f"{due.last_error} ({pluralize(due.attempts, 'attempt')}, {when}; to build it now: {now})"
    )
