"""A user profile that scores calls, work for it, and the scorecards that a build makes of them."""

from datetime import date, datetime
from pathlib import Path
from typing import Any

from evaluation_pipelines.build import Build, DateBuilt
from evaluation_pipelines.schemas import SCORECARDS, SESSION_EVALUATIONS
from evaluation_pipelines.telemetry.ingest import Ingest
from evaluation_pipelines_tests.workplace import NOW, Workplace
from evaluation_pipelines_tests.world import claude, line

DAY = date(2026, 6, 1)


PROFILE = """\
id: calls
version: {version}
name: Few calls
match_labels: [{label}]
method: heuristic
criteria:
  - id: tool_count
thresholds:
  tool_count_worst: {worst}
{more}
"""


def work(session: str = "s1", second: float = 0, label: str = "simple", **call: object) -> bytes:
    """Return a prompt, a shell call and an answered request: two output tokens per input token."""
    named = {"session__id": session, "classification__label": label}
    given = {"tool_name": "Bash", "success": "true", **call}
    return line(
        claude("user_prompt", second, **named),
        claude("tool_result", second + 10, **given, **named),
        claude("api_request", second + 20, input_tokens=100, output_tokens=200, cost_usd=0.01,
               model="model-a", **named),
    )  # fmt: skip


def profile_file(
    workplace: Workplace, version: int = 1, worst: int = 10, label: str = "simple", more: str = ""
) -> Path:
    """Write a user profile under which one call of ten scores 0.9."""
    path = workplace.settings.profiles_dir / "calls.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(PROFILE.format(version=version, worst=worst, label=label, more=more))
    return path


def build(workplace: Workplace, now: datetime = NOW) -> list[DateBuilt]:
    """Ingest the landed files and build the dates that are due at a time."""
    Ingest(workplace.stores, lambda: now).run()
    job = Build(workplace.stores, clock=lambda: now)
    results = job.run(job.pending_dates())
    built = [result for result in results if isinstance(result, DateBuilt)]
    assert len(built) == len(results)
    return built


def cards(workplace: Workplace, profile_id: str = "calls") -> list[dict[str, Any]]:
    found = workplace.lake.read(SCORECARDS, workplace.lake.partitions(SCORECARDS))
    return found.filter(profile_id=profile_id).rows(named=True)


def evaluation(workplace: Workplace) -> dict[str, Any]:
    (row,) = workplace.lake.read(SESSION_EVALUATIONS, [DAY]).rows(named=True)
    return row
