"""Channels of events: which events a listener gets, and how they are written."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from evaluation_pipelines.attention.domain.messages import without_sessions
from evaluation_pipelines.scorecards.domain.evaluation_events import MODEL_FEEDBACK, QUALITY_RISK
from evaluation_pipelines.scorecards.domain.withheld import WAITS, SessionKey, without_scores
from evaluation_pipelines.storage.ledger.service_events import ServiceEvent
from evaluation_pipelines.storage.ledger.tables.people import SERVICE_EVENTS

CHANNELS = "sessions, session:<session id or key>, evaluations and alerts"

_EVENT = SERVICE_EVENTS.c
_ALL_SESSIONS = ("scoring.started", "scoring.completed", "scoring.failed")
_ONE_SESSION = (*_ALL_SESSIONS, "scoring.progress", "scoring.deferred")
_EVALUATIONS = (MODEL_FEEDBACK, QUALITY_RISK)
_ALERTS = ("alert.raised", "alert.ended")
_NAME_CHARACTERS = 1024
_ALWAYS = ("event_id", "type", "timestamp_us")
_SUBJECT = ("score_id", "session_id", "session_key", "organization_id")
_WHERE_THEY_APPLY = ("phase", "total_score", "error_message")


class UnknownChannelError(ValueError):
    """No channel has this name."""


@dataclass(frozen=True, slots=True)
class Channel:
    """The events that one listener gets.

    Attributes:
        types: Types of events.
        session: Session id or key; ``None`` for all sessions.
        organization: The only organization; ``None`` for all. Alerts have no organization.
    """

    types: tuple[str, ...]
    session: str | None
    organization: str | None

    def includes(self, event: ServiceEvent) -> bool:
        """Return True if the listener gets ``event``."""
        return (
            event.type in self.types
            and self.session in {None, event.session_id, event.session_key}
            and self.organization in {None, event.organization_id}
        )

    @property
    def conditions(self) -> list[sa.ColumnElement[bool]]:
        """The same as conditions on ``service_events``."""
        found: list[sa.ColumnElement[bool]] = [_EVENT.type.in_(self.types)]
        if self.session is not None:
            found.append(
                sa.or_(_EVENT.session_id == self.session, _EVENT.session_key == self.session)
            )
        if self.organization is not None:
            found.append(_EVENT.organization_id == self.organization)
        return found


def parse_channel(name: str, organization: str | None) -> Channel:
    """Return the channel ``name`` for a listener of ``organization``.

    Raises:
        UnknownChannelError: No channel has this name.
    """
    kind, separator, session = name.partition(":")
    if "\0" in name or len(name) > _NAME_CHARACTERS:  # no session has such a name
        kind = ""
    match kind:
        case "sessions" if not separator:
            return Channel(_ALL_SESSIONS, None, organization)
        case "session" if session:
            return Channel(_ONE_SESSION, session, organization)
        case "evaluations" if not separator:
            return Channel(_EVALUATIONS, None, organization)
        case "alerts" if not separator:
            return Channel(_ALERTS, None, organization)
    raise UnknownChannelError(f"There is no such channel. There are {CHANNELS}.")


def is_withheld(event: ServiceEvent, waiting: Collection[SessionKey]) -> bool:
    """Return True if an event has the score of a session that waits for a blind review."""
    if event.type in _ALERTS:
        return bool(waiting)
    is_scored = event.total_score is not None or event.type in _EVALUATIONS
    return is_scored and (event.organization_id, event.session_key) in waiting


def event_text(event: ServiceEvent) -> str:
    """Return an event as JSON for its listeners."""
    return json.dumps(_fields(event))


def withheld_text(event: ServiceEvent, waiting: Collection[SessionKey]) -> str | None:
    """Return an event as JSON without the scores of the sessions that wait.

    ``None`` if the event itself is about a low score.
    """
    fields = _fields(event)
    if event.type == QUALITY_RISK:
        return None
    if event.type in _ALERTS:
        payload = fields["payload"]
        text = without_sessions(payload["text"], waiting)
        return json.dumps({**fields, "payload": {**payload, "text": text}})
    return json.dumps({**without_scores(fields), WAITS: True})


def _fields(event: ServiceEvent) -> dict[str, Any]:
    fields: dict[str, Any] = {name: getattr(event, name) for name in _ALWAYS}
    for name in (*_SUBJECT, *_WHERE_THEY_APPLY):
        if (value := getattr(event, name)) is not None:
            fields[name] = value
    if event.payload is not None:
        fields["payload"] = json.loads(event.payload)
    return fields


def missed_text(oldest_id: int) -> str:
    """Return the message to a listener whose last event is older than all that are kept."""
    return json.dumps({"type": "events.missed", "oldest_event_id": oldest_id})
