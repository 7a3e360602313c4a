"""Events of scorings as lines of a run's log."""

from logging import Logger

from evaluation_pipelines.judging.endpoint.replies import one_line_excerpt
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.storage.ledger.service_events import ServiceEvent

_MAX_LINES = 20
"""Events of one look that are logged each; more would flood the event log of Dagster."""


class EventLog:
    """Logs the events of scorings since the last look: failures as info, others as debug."""

    def __init__(self, log: Logger, scores: ScoreStore) -> None:
        """Begin with the events that follow the newest one."""
        self._log, self._scores = log, scores
        newest = scores.newest_events(1)
        self._seen = newest[-1].event_id if newest else 0

    def __call__(self) -> None:
        """Log the new events; beyond ``_MAX_LINES``, failures first, only their number."""
        events = self._scores.events_after(self._seen)
        if not events:
            return
        self._seen = events[-1].event_id
        failed = [each for each in events if each.type == "scoring.failed"]
        others = [each for each in events if each.type != "scoring.failed"]
        shown = {each.event_id for each in [*failed, *others][:_MAX_LINES]}
        for event in events:
            if event.event_id in shown:
                log = self._log.info if event in failed else self._log.debug
                log("%s", _line(event))
        if left := len(events) - len(shown):
            self._log.debug(
                "%d more events of scorings: evaluation-pipelines judge list events", left
            )


def _line(event: ServiceEvent) -> str:
    """Return one printable line: neither key nor detail can imitate another line of the log."""
    detail = "" if event.detail is None else f": {one_line_excerpt(event.detail)}"
    return f"{event.type} {one_line_excerpt(event.session_key or '')}{detail}"
