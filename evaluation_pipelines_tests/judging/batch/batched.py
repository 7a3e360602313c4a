"""Judge runs in batch mode, with a scripted endpoint and a simulated time."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from evaluation_pipelines.judging.ledger.batch_store import BatchStore
from evaluation_pipelines.judging.report import JudgeReport
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judged import Judged, fill, open_judged, session_with_texts

RUN_FIELDS = frozenset(
    "score_id score_triggered_by scored_at_us started_at_us completed_at_us input_tokens "
    "cached_tokens output_tokens judge_cost_usd latency_ms".split()
)
"""Fields of ``judge_scores`` that belong to the run: who, when and usage.

A run that was killed and resumed, or that sent batches, leaves the same values in all others if the
judge wrote the same.
"""

_LEFT_OUT = RUN_FIELDS | {"booked_at_us", "booked_cost_usd", "turn_log"}


@dataclass
class Batched(Judged):
    """A workplace in batch mode."""

    endpoint: JudgeEndpoint | None = None

    def land(self, *names: str) -> None:
        """Add sessions with these names."""
        lines = (session_with_texts(name, 60 * n) for n, name in enumerate(names))
        fill(self.workplace, *lines)

    def send(self, *names: str) -> JudgeReport:
        """Add sessions with these names, and run once."""
        self.land(*names)
        return self.run()

    def finish(self, status: str = "completed", answered: int | None = None) -> JudgeReport:
        """End the batches at the provider, and run once, an hour later."""
        assert self.endpoint is not None
        self.endpoint.batches.finish(status, answered)
        self.now += timedelta(hours=1)
        return self.run()

    def finish_all(self) -> None:
        """Run until all batches have ended, and assert that each session has one score."""
        assert self.endpoint is not None
        for _ in range(3):
            if not all(score.status == "completed" for score in self.all_scores()):
                self.finish()
        scores = self.all_scores()
        assert {score.status for score in scores} == {"completed"}
        assert len({score.session_key for score in scores}) == len(scores)
        assert set(self.endpoint.batches.sent.values()) == {1}
        assert self.endpoint.batches.files == {}

    def states(self) -> list[str]:
        """Return the states of all batches, oldest first."""
        newest = BatchStore(self.workplace.ledger).newest(99)
        return [str(batch.state) for batch in reversed(newest)]


def comparable(score: Score) -> Mapping[str, object]:
    """Return what two scorings with the same replies have in common."""
    fields = {name: getattr(score, name) for name in score.__slots__ if name not in _LEFT_OUT}
    turns = [(turn.turn, turn.text, turn.finish_reason) for turn in score.turn_log]
    return {**fields, "turns": turns}


@contextmanager
def open_batched(folder: Path, endpoint: JudgeEndpoint, **settings: Any) -> Iterator[Batched]:
    """Open a workplace in batch mode."""
    given = {"judge_mode": "batch", **settings}
    with open_judged(folder, endpoint.base_url, **given) as judged:
        yield Batched(judged.workplace, judged.now, endpoint)
