"""What a judge run is asked to do."""

from dataclasses import dataclass, field

from evaluation_pipelines.judging.domain.due import ExtraDue
from evaluation_pipelines.judging.session_windows import WindowKey


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What a run is asked to do.

    Attributes:
        triggered_by: A person, ``schedule``, ``sensor`` or the id of a Dagster run.
        asked: What it wants beyond what is due.
        max_sessions, max_cost_usd: Tighter limits than the settings' own.
        chosen: The one session window that it is about; None for all.
    """

    triggered_by: str
    asked: ExtraDue = field(default_factory=ExtraDue)
    max_sessions: int | None = None
    max_cost_usd: float | None = None
    chosen: WindowKey | None = None
