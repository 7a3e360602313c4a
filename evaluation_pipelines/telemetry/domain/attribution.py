"""Attribution lines: which masque a session wore, and when.

``{"session_id": ..., "masque": ..., "donned_at": ..., "doffed_at": ...}``; ``doffed_at`` may be
missing. Each becomes a ``masque_don`` event and, if ``doffed_at`` is set, a ``masque_doff`` event.
"""

from typing import Any

from evaluation_pipelines import times
from evaluation_pipelines.telemetry.domain.attributes import text
from evaluation_pipelines.telemetry.domain.events import Clock
from evaluation_pipelines.telemetry.domain.identity import content_id
from evaluation_pipelines.telemetry.domain.otlp import Line
from evaluation_pipelines.telemetry.domain.shapes import Origin


def attribution_rows(line: Line, origin: Origin, clock: Clock) -> list[dict[str, Any]] | str:
    """Return rows of ``agent_events`` for an attribution line, or its defect."""
    session_id = text(line.session_id) if isinstance(line.session_id, str) else None
    masque = text(line.masque) if isinstance(line.masque, str) else None
    if session_id is None:
        return "attribution line: session_id is not a non-empty string"
    if masque is None:
        return "attribution line: masque is not a non-empty string"
    moments = {"masque_don": times.from_iso(line.donned_at)}
    if moments["masque_don"] is None:
        return "attribution line: donned_at is not an ISO 8601 time"
    if line.doffed_at is not None:
        moments["masque_doff"] = times.from_iso(line.doffed_at)
        if moments["masque_doff"] is None:
            return "attribution line: doffed_at is not an ISO 8601 time"
    return [
        {
            "event_id": content_id("attribution", session_id, masque, name, time_us),
            "event_time": clock.possible(time_us) or clock.now_us,
            "session_id": session_id,
            "masque": masque,
            "event_name": name,
            "source_event_name": "attribution",
            "time_anomaly": clock.possible(time_us) is None,
            "source_file_id": origin.file_id,
            "source_offset": origin.offset,
        }
        for name, time_us in moments.items()
    ]
