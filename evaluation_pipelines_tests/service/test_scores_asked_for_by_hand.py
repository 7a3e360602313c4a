"""A person who asks for a score sees it: the session leaves the blind sample."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.scorecards.store import AuditSample, OverrideStore, ReviewStore
from evaluation_pipelines_tests.judging.ledger.score_builders import DONE, begun
from evaluation_pipelines_tests.scorecards.calls_profile import DAY, build, profile_file
from evaluation_pipelines_tests.service.answers import A1, path_of
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.service.pages.test_withheld_scores import session
from evaluation_pipelines_tests.storage.ledger.ledger_builders import NOON
from evaluation_pipelines_tests.workplace import NOW, open_workplace

PATH = f"/api/v1/scoring/sessions/{path_of(A1)}/score"


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Service]:
    """a1 of acme, which a judge has scored, waits for a review."""
    judge = {"judge_model": "judge-1", "openai_base_url": "http://127.0.0.1:9/v1"}
    with open_workplace(tmp_path, **judge) as workplace:
        profile_file(workplace, worst=11)
        workplace.land("logs.jsonl", session("a1", 0, 4))
        build(workplace)
        content = workplace.lake.read(AGENT_SESSIONS, [DAY])["content_hash"].item()
        scores = ScoreStore(workplace.ledger)
        score = scores.create(begun(A1, content_hash=content, session_date=DAY), NOON)
        scores.complete(score.score_id, DONE | {"total_score": 43}, NOON)
        samples = [AuditSample(DAY, "acme", A1, "calls", content, NOW)]
        OverrideStore(workplace.ledger).add_samples(samples)
        yield Service(workplace)


def test_who_forces_a_score_sees_it_and_the_session_leaves_the_sample(asked: Service) -> None:
    ann, ben = (asked.client(asked.key(role)) for role in (Role.OPERATOR, Role.REVIEWER))
    for client in (ann, ben):
        record = client.get(PATH).json()
        assert (record["awaits_review"], record["total_score"]) == (True, None)
    assert ann.post(PATH).json()["awaits_review"] is True  # nothing new was asked for

    assert ann.post(PATH, json={"force_rescore": True}).status_code == 202
    scores = ScoreStore(asked.workplace.ledger)
    forced = scores.by_session("acme", A1)[-1]
    scores.claim(forced.score_id, NOW)
    scores.complete(forced.score_id, DONE | {"total_score": 51}, NOW)
    for client in (ann, ben):
        record = client.get(PATH).json()
        assert (record["awaits_review"], record["total_score"]) == (False, 51)
    assert ReviewStore(asked.workplace.ledger).left() == {("acme", A1)}
