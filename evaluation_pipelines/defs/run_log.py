"""Console of ``dg dev``: a line for each run that has succeeded.

Named in ``dagster.yaml``. Failures are errors that Dagster prints itself; what a run does meanwhile
is on its page.
"""

import logging
import sys
from collections import Counter, defaultdict

import dagster as dg

_LONGEST_ID = 8
_WRITTEN: defaultdict[str, Counter[str]] = defaultdict(Counter)
"""Run -> materializations by asset: Dagster makes several handlers for a run."""


class SuccessLog(logging.Handler):
    """Prints what a run has materialized when it has succeeded."""

    def emit(self, record: logging.LogRecord) -> None:
        """Count materializations; print the line of a success."""
        meta = record.__dict__["dagster_meta"]
        event = meta["dagster_event"]
        kind = None if event is None else event.event_type
        if kind == dg.DagsterEventType.ASSET_MATERIALIZATION:
            _WRITTEN[meta["run_id"]][event.asset_key.to_user_string()] += 1
        elif kind == dg.DagsterEventType.RUN_SUCCESS:
            line = success_line(record, _WRITTEN.pop(meta["run_id"], Counter()))
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()


def success_line(record: logging.LogRecord, written: Counter[str]) -> str:
    """Return when which run has succeeded, and what it has written: counts are of partitions."""
    time = logging.Formatter().formatTime(record, "%Y-%m-%d %H:%M:%S %z")
    run_id = record.__dict__["dagster_meta"]["run_id"]
    names = (
        name if number == 1 else f"{name} ({number:,})" for name, number in sorted(written.items())
    )
    return f"{time} - run {run_id[:_LONGEST_ID]} succeeded: {', '.join(names) or 'nothing written'}"
