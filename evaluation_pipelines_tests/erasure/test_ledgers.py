"""Erasures with either database as the ledger; test_every_byte has the other stores."""

from pathlib import Path

import sqlalchemy as sa

from evaluation_pipelines.erasure.domain.subject import Subject
from evaluation_pipelines.erasure.forget import Forget
from evaluation_pipelines.erasure.ledger_rows import Erasures
from evaluation_pipelines.storage.ledger.engine import reading
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables import METADATA
from evaluation_pipelines_tests.erasure.two_people import TRACES
from evaluation_pipelines_tests.erasure.whole_installation import fill_ledger
from evaluation_pipelines_tests.workplace import NOW, open_workplace


def traces(ledger: Ledger) -> set[str]:
    """Traces in any row of any table."""
    with reading(ledger.engine) as connection:
        rows = [
            repr(connection.execute(sa.select(table)).all()) for table in METADATA.tables.values()
        ]
    return {trace for trace in TRACES if trace in "".join(rows)}


def test_no_row_of_either_database_has_a_trace(url: str, tmp_path: Path) -> None:
    with open_workplace(tmp_path / "data", ledger_url=url) as workplace:
        fill_ledger(workplace)
        assert traces(workplace.ledger) == {*TRACES} - {"ada-worker-7"}

        Forget(workplace.stores, "root", clock=lambda: NOW).run(Subject("person", "ada"))
        Forget(workplace.stores, "eve", clock=lambda: NOW).run(Subject("person", "ada"))

        assert traces(workplace.ledger) == set()
        first, second = Erasures(workplace.ledger).all()
        assert (first.subject, first.requested_by, first.completed_at) == ("person", "root", NOW)
        assert first.rows["session_scores"] == 1
        assert (second.requested_by, dict(second.rows)) == ("eve", {})
