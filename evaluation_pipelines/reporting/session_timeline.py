"""What happened in a session, step by step, for people: without secrets and hidden characters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from evaluation_pipelines.judging.domain.prompt.session_steps import SessionStep, session_steps
from evaluation_pipelines.judging.domain.prompt.shown_texts import ShownTexts, shown_texts
from evaluation_pipelines.judging.domain.prompt.transcript import STEP_COLUMNS
from evaluation_pipelines.scorecards.review_material import SessionEvents, session_events
from evaluation_pipelines.sessions.domain.find_session import SessionRow
from evaluation_pipelines.storage.stores import Stores

ReadEvents: TypeAlias = Callable[[Stores, SessionRow, datetime], SessionEvents | None]


@dataclass(frozen=True, slots=True)
class TimelineStep:
    """A step of a session.

    Attributes:
        number: Its place, from 1.
        kind: ``prompt``, ``reply``, ``tool``, ``failure`` or ``note``.
        clock: Minutes and seconds since the first event of the session.
        title: The step in one line.
        texts: Label and text; the label is empty where the title says it.
        not_logged: Texts that were not logged.
        is_failure: Whether something failed or was refused.
    """

    number: int
    kind: str
    clock: str
    title: str
    texts: tuple[tuple[str, str], ...]
    not_logged: tuple[str, ...]
    is_failure: bool


@dataclass(frozen=True, slots=True)
class Timeline:
    """A range of the steps of a session.

    Attributes:
        steps: The steps.
        total: How many there are of the chosen kinds.
        task: The first prompt.
        note: What of the session has expired; empty if nothing has.
    """

    steps: tuple[TimelineStep, ...]
    total: int
    task: TimelineStep | None
    note: str = ""


def session_timeline(
    stores: Stores,
    session: SessionRow,
    now: datetime,
    kinds: Sequence[str] | None,
    places: slice,
    read: ReadEvents = session_events,
) -> Timeline | None:
    """Return steps of a session.

    Args:
        stores: Lake and settings.
        session: Row of ``agent_sessions``.
        now: The time.
        kinds: The only kinds of steps; ``None`` for all.
        places: Which of these steps, as a slice of their list.
        read: Returns the events of the session.

    Returns:
        The steps; ``None`` if the session has continued since it was built.

    Raises:
        LakeError: A file cannot be read.
        QueryError: The SQL failed.
    """
    found = read(stores, session, now)
    if found is None:
        return None
    texts = shown_texts(stores.settings.judge_redact_personal)
    numbered = list(enumerate(session_steps(found.events.select(STEP_COLUMNS).to_dicts()), 1))
    wanted = [each for each in numbered if kinds is None or each[1].kind in kinds]
    shown = wanted[places]
    first = next((each for each in numbered if each[1].kind == "prompt"), None)
    return Timeline(
        tuple(_shown(*each, texts) for each in shown),
        len(wanted),
        None if first is None else _shown(*first, texts),
        found.note,
    )


def _shown(number: int, step: SessionStep, texts: ShownTexts) -> TimelineStep:
    said = []
    for part in step.parts:
        read = texts.parameters if part.is_json else texts.text
        said.append((part.label, read(part.text)))
    title = texts.line(step.title.removeprefix("TOOL "))
    return TimelineStep(
        number,
        step.kind,
        f"{int(step.seconds) // 60}:{int(step.seconds) % 60:02}",
        title.capitalize() if step.kind in {"prompt", "reply"} else title,
        tuple(said),
        step.not_logged,
        step.is_failure,
    )
