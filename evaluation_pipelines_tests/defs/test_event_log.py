"""The log of a run that judges."""

import logging
from typing import cast
from unittest.mock import Mock

from evaluation_pipelines.defs.judging import EventLog
from evaluation_pipelines.storage.ledger.service_events import ServiceEvent


class _Lines:
    """A log that keeps its lines by level."""

    def __init__(self) -> None:
        self.infos: list[str] = []
        self.debugs: list[str] = []

    def info(self, form: str, *values: object) -> None:
        self.infos.append(form % values)

    def debug(self, form: str, *values: object) -> None:
        self.debugs.append(form % values)


def event(number: int, kind: str, key: str, error: str | None = None) -> ServiceEvent:
    session = (None, None, key, None, None)
    return ServiceEvent(number, kind, 0, *session, None, None, error, None, None)


def test_events_of_scorings_do_not_flood_the_log_and_failures_come_first() -> None:
    done, failed = "scoring.completed", "scoring.failed"
    events = [event(n, done if n % 10 else failed, f"s{n}") for n in range(1, 101)]
    lines, store = _Lines(), Mock()
    store.newest_events.return_value = []
    store.events_after.side_effect = [events, []]
    log = EventLog(cast("logging.Logger", lines), store)
    log()
    log()

    assert lines.infos == [f"scoring.failed s{n}" for n in range(10, 101, 10)]
    assert lines.debugs == [
        *(f"scoring.completed s{n}" for n in (*range(1, 10), 11)),
        "80 more score events: evaluation-pipelines judge list events",
    ]
    assert [call.args for call in store.events_after.call_args_list] == [(0,), (100,)]


def test_an_event_is_one_printable_line_of_the_log() -> None:
    key, detail = "s1\nscoring.completed s2", "503\r\n\x1b[2Kall is well\u202e"
    lines, store = _Lines(), Mock()
    store.newest_events.return_value = []
    store.events_after.return_value = [event(1, "scoring.failed", key, detail)]

    EventLog(cast("logging.Logger", lines), store)()

    assert lines.infos == ["scoring.failed s1 scoring.completed s2: 503 [2Kall is well"]
