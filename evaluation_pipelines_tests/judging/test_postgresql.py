"""Judge runs whose ledger is in PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa

from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judge_scripts import http_error
from evaluation_pipelines_tests.judged import Judged, fill, open_judged, session_with_texts


@pytest.fixture
def judged(judge: JudgeEndpoint, postgresql_server: str, tmp_path: Path) -> Iterator[Judged]:
    """Empty stores with the ledger in a new database."""
    server, name = sa.make_url(postgresql_server), f"judged_{uuid4().hex}"
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name} TEMPLATE template0"))
    url = server.set(database=name).render_as_string(hide_password=False)
    with open_judged(tmp_path, judge.base_url, ledger_url=url) as opened:
        yield opened
    with engine.connect() as connection:
        connection.execute(sa.text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


def test_a_run_judges_fails_and_resumes_as_with_sqlite(
    judged: Judged, judge: JudgeEndpoint
) -> None:
    fill(judged.workplace, *(session_with_texts(f"s{n}", n) for n in range(4)))
    judge.script_turn("missing-tools", http_error(401))

    assert judged.run().is_endpoint_down
    judged.run()
    scores = [judged.score(f"s{n}#baseline-1") for n in range(4)]
    assert {each.status for each in scores} == {"completed"}
    assert judge.turns().count("score") == 4
    assert judged.run().states == {"scored": 4}
