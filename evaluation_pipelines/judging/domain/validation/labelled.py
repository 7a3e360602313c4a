"""Labelled sessions: work with a known flaw, and its clean twin, as agent events."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from evaluation_pipelines.judging.domain.due import Window
from evaluation_pipelines.judging.domain.validation.attacks import ASKED_AGAIN
from evaluation_pipelines.schemas import EVENTS_WITH_TEXTS

SEVERITIES = {"minor": 1, "moderate": 2, "severe": 3}
"""Severity of a flaw by name; a clean session has 0."""

_START = datetime(2026, 1, 5, 9, tzinfo=UTC)
_STEP = timedelta(seconds=20)
_OUTPUTS = {"prompt": "user_prompt", "reply": "assistant_response", "tool": "tool_result"}


@dataclass(frozen=True, slots=True)
class LabelledSession:
    """A session whose flaw is known.

    Attributes:
        task: The task; a clean session and its flawed twins share it.
        name: Unique name: the task, then flaw and severity.
        kind: Failure tag that a good judge gives; ``None`` for a clean session.
        severity: Value of ``SEVERITIES``, 0 for a clean session.
        steps: Prompt, tool calls and replies in order, as in the file format.
        agent_model: Model that made the session, if known.
        attack: Name of the attack that was added; ``None`` for none, ``ASKED_AGAIN`` for the
            same session once more.
    """

    task: str
    name: str
    kind: str | None
    severity: int
    steps: tuple[Mapping[str, Any], ...] = field(repr=False)
    agent_model: str | None = None
    attack: str | None = None

    def events(self) -> pl.DataFrame:
        """Return the events as the lake has them, with their texts."""
        rows = [_row(self.name, number, step) for number, step in enumerate(self.steps)]
        return pl.DataFrame(rows, schema=EVENTS_WITH_TEXTS, orient="row")

    def window(self) -> Window:
        """Return the session window of the events."""
        return Window(
            organization_id="default",
            session_key=self.name,
            session_id=self.name,
            session_date=_START.date(),
            agent_id=None,
            agent_model=self.agent_model,
            classification_label="general",
            started_at=_START,
            ended_at=_START + (len(self.steps) - 1) * _STEP,
            is_terminal=True,
            content_level="full",
            content_hash="",
        )

    def attacked(self, name: str, text: str) -> "LabelledSession":
        """Return the session with a hostile text at the end of the result of its last tool call."""
        last = max(number for number, step in enumerate(self.steps) if "tool" in step)
        call = self.steps[last]
        result = "\n".join(filter(None, (call.get("result"), text)))
        steps = (*self.steps[:last], {**call, "result": result}, *self.steps[last + 1 :])
        return LabelledSession(
            *(self.task, f"{self.name} {name}", self.kind, self.severity),
            *(steps, self.agent_model, name),
        )

    def again(self) -> "LabelledSession":
        """Return the same session, to be judged a second time."""
        return replace(self, name=f"{self.name} again", attack=ASKED_AGAIN)


def twins(document: Mapping[str, Any]) -> list[LabelledSession]:
    """Return the clean session of a document and its flawed twins.

    Args:
        document: Content of a file of labelled sessions that has passed its check: ``id``,
            ``prompt``, ``steps`` by name and ``flaws``, each with ``kind``, ``severity``, and the
            steps that it omits or replaces.

    Raises:
        ValueError: A flaw names a step that does not exist.
    """
    task, agent_model = document["id"], document.get("agent_model")
    prompt, steps = {"prompt": document["prompt"]}, document["steps"]
    sessions = [LabelledSession(task, task, None, 0, (prompt, *steps.values()), agent_model)]
    for number, flaw in enumerate(document.get("flaws", ()), 1):
        omitted, replaced = set(flaw.get("omit", ())), flaw.get("replace", {})
        if unknown := (omitted | replaced.keys()) - steps.keys():
            raise ValueError(f"flaw {number} names unknown steps: {', '.join(sorted(unknown))}")
        changed = [replaced.get(each, step) for each, step in steps.items() if each not in omitted]
        name = f"{task}/{number}-{flaw['kind']}-{flaw['severity']}"
        severity = SEVERITIES[flaw["severity"]]
        flawed = (prompt, *changed)
        sessions.append(LabelledSession(task, name, flaw["kind"], severity, flawed, agent_model))
    return sessions


def _row(session: str, number: int, step: Mapping[str, Any]) -> dict[str, Any]:
    at = _START + number * _STEP
    what = next(each for each in _OUTPUTS if each in step)
    values = {
        "event_id": hashlib.sha256(f"{session} {number}".encode()).digest()[:16],
        "event_time": at,
        "observed_time": at,
        "session_id": session,
        "session_date": at.date(),
        "organization_id": "default",
        "source_cli": "genai",
        "event_name": _OUTPUTS[what],
        "source_event_name": _OUTPUTS[what],
        "sequence": number,
        "time_anomaly": False,
        "source_offset": number,
    }
    if what == "tool":
        is_ok = step.get("success", "error" not in step)
        values |= {
            "tool_name": step["tool"],
            "success": is_ok,
            "error": step.get("error"),
            "content": step.get("result"),
            "tool_parameters": json.dumps(step.get("parameters", {}), ensure_ascii=False),
        }
    else:
        values["content"] = step[what]
    return dict.fromkeys(EVENTS_WITH_TEXTS) | values
