"""Sessions judged by several processes, to compare the endpoint with the ledger."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint, open_judge_endpoint
from evaluation_pipelines_tests.judged import Judged, fill, session_with_texts
from evaluation_pipelines_tests.telemetry.pipeline_steps import judge as judge_due
from evaluation_pipelines_tests.workplace import Workplace, open_workplace
from evaluation_pipelines_tests.world import DAY_S

CONCURRENCY = 4
JUDGE = {
    "judge_model": "judge-1",
    "judge_concurrency": CONCURRENCY,
    "judge_input_usd_per_mtok": 1.0,
    "judge_output_usd_per_mtok": 10.0,
}
LONG_AGO_S = -480 * DAY_S
"""2025-02-06, in the past of any clock."""


@dataclass
class Site:
    """A workplace with sessions and its judge endpoint."""

    workplace: Workplace
    endpoint: JudgeEndpoint
    sessions: int
    settings: dict[str, object]

    def answered(self) -> int:
        """Return the number of complete answers that were written to a socket."""
        return sum(request.answered for request in self.endpoint.requests)

    def scores(self) -> list[Score]:
        """Return all scorings."""
        return Judged(self.workplace).all_scores()

    def stored(self) -> int:
        """Return the number of replies in the ledger."""
        return sum(len(score.turn_log) for score in self.scores())

    def committed_usd(self) -> float:
        """Return the money that counts against the daily budget."""
        return sum(
            (score.booked_cost_usd or 0.0) + (score.reserved_cost_usd or 0.0)
            for score in self.scores()
        )

    def finish(self) -> None:
        """Run the judge once more without interruption."""
        judge_due(self.workplace.stores)


@contextmanager
def site(
    folder: Path, monkeypatch: pytest.MonkeyPatch, sessions: int, text: str = "", **settings: object
) -> Iterator[Site]:
    """Open due sessions and an endpoint that answers after 30 ms."""
    given = {**JUDGE, **settings}
    with open_judge_endpoint(0.03, keep_bodies=False) as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        with open_workplace(folder, OPENAI_BASE_URL=endpoint.base_url, **given) as workplace:
            lines = (session_with_texts(f"s{n}", LONG_AGO_S + n, text) for n in range(sessions))
            fill(workplace, *lines)
            yield Site(workplace, endpoint, sessions, given)
