"""A service with a scripted judge, and a clock that goes on from the time of the tests."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from evaluation_pipelines.access.key_ring import KeyRing
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines.service.app import create_app
from evaluation_pipelines.service.installation import Installation
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint, open_judge_endpoint
from evaluation_pipelines_tests.judged import fill, open_judged, session_with_texts
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.workplace import NOW, Workplace

PATH = "/api/v1/scoring/sessions/{}/score"
KEY = "s1#baseline-1"

_Found = TypeVar("_Found")


class ScoringService(Service):
    """The service of a workplace whose judge is ``judge``."""

    def __init__(self, workplace: Workplace, judge: JudgeEndpoint) -> None:
        super().__init__(workplace)
        began = time.monotonic()
        self.clock: Callable[[], datetime] = lambda: (
            NOW + timedelta(seconds=time.monotonic() - began)
        )
        self.judge = judge
        self.installation = Installation(
            workplace.stores, KeyRing(workplace.ledger, lambda: NOW), self.clock
        )
        self.app = create_app(self.installation)

    @property
    def scores(self) -> ScoreStore:
        """The scorings."""
        return ScoreStore(self.workplace.ledger)

    def score(self, session_key: str = KEY, organization: str = "default") -> Score:
        """Return the newest scoring of a session."""
        return self.scores.by_session(organization, session_key)[-1]


@contextmanager
def open_service(folder: Path, *lines: bytes, **settings: Any) -> Iterator[ScoringService]:
    """Open a service with sessions; by default one, ``s1``, of the organization ``default``."""
    with (
        open_judge_endpoint() as judge,
        open_judged(folder, judge.base_url, **settings) as judged,
    ):
        fill(judged.workplace, *(lines or (session_with_texts("s1"),)))
        yield ScoringService(judged.workplace, judge)


def wait_for(look: Callable[[], _Found], seconds: float = 20) -> _Found:
    """Return the first true result of ``look``."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.02)
    return found
