"""Sessions that a judge has something to read in, and judge runs over them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from evaluation_pipelines.judging.domain.score import Score
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import PlanOverrides, load_plans
from evaluation_pipelines.judging.runner.judge_run import JudgeRun
from evaluation_pipelines.judging.runner.run_report import JudgeReport
from evaluation_pipelines.judging.runner.run_request import RunRequest
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines_tests.otlp_builders import DAY_S, NOON_NS, claude, line
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace

JUNE_1 = date(2026, 6, 1)


def told_session(name: str, second: float = 0, text: str = "", **resource: object) -> bytes:
    """One line: a session of a prompt, a search, a failed edit and a reply, with their texts."""
    return line(
        claude(
            "user_prompt", second, session__id=name, prompt=f"Mend the parser of {name}. {text}"
        ),
        claude(
            "tool_result",
            second + 1,
            session__id=name,
            tool_name="Grep",
            success="true",
            tool_parameters='{"pattern": "parse"}',
        ),
        claude(
            "tool_result",
            second + 2,
            session__id=name,
            tool_name="Edit",
            success="false",
            error="string not found",
            tool_parameters='{"file_path": "src/parser.py"}',
        ),
        claude("assistant_response", second + 3, session__id=name, response="It is mended."),
        **resource,
    )


def old(name: str, number: int = 0) -> bytes:
    """A told session of a day by its number, as the tests of the code location count them."""
    return told_session(name, (number - 480) * DAY_S)


def fresh(name: str, hours: float = 2) -> bytes:
    """A told session that ended so many hours ago."""
    return told_session(name, time.time() - hours * 3600 - NOON_NS / 1e9)


def fill(workplace: Workplace, *lines: bytes) -> None:
    """Land, ingest and build."""
    workplace.land("logs.jsonl", b"".join(lines), "ab")
    workplace.ingest()
    workplace.build()


@dataclass
class Judged:
    """A workplace with an endpoint, whose time a test decides."""

    workplace: Workplace
    now: datetime = NOW

    def run(self, *, overrides: PlanOverrides | None = None, **order: Any) -> JudgeReport:
        """One judge run over all dates."""
        stores = self.workplace.stores
        plans = load_plans(stores, self.now, overrides)
        wanted = RunRequest(**{"triggered_by": "tests", **order})
        job = JudgeRun(stores, plans, wanted, lambda: self.now)
        return job.run(stores.lake.partitions(AGENT_SESSIONS))

    def scores(self, session_key: str) -> list[Score]:
        """All scorings of a session, the oldest first."""
        return ScoreStore(self.workplace.ledger).by_session("default", session_key)

    def score(self, session_key: str) -> Score:
        """The only scoring of a session."""
        (found,) = self.scores(session_key)
        return found


@contextmanager
def open_judged(folder: Path, base_url: str, **settings: Any) -> Iterator[Judged]:
    """A workplace that judges with an endpoint; settings by name as in ``Settings``."""
    given = {
        "OPENAI_BASE_URL": base_url,
        "judge_model": "judge-1",
        "judge_input_usd_per_mtok": 1.0,
        "judge_output_usd_per_mtok": 10.0,
        "judge_max_output_tokens": 1000,
    }
    with open_workplace(folder, **{**given, **settings}) as workplace:
        yield Judged(workplace)
