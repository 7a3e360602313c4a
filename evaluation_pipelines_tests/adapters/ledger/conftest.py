import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa

from evaluation_pipelines.adapters.ledger.ledger import Ledger, open_ledger

POSTGRESQL = os.environ.get("TEST_POSTGRESQL_URL", "")
"""Where given, a server on which the same tests run in databases of their own."""


@pytest.fixture(params=["sqlite", "postgresql"] if POSTGRESQL else ["sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where a ledger will be; nothing is there yet."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'ledger.db'}"
        return
    server, name = sa.make_url(POSTGRESQL), f"ledger_{uuid4().hex}"
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name}"))
        yield server.set(database=name).render_as_string(hide_password=False)
        connection.execute(sa.text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    """A fresh ledger."""
    opened = open_ledger(url)
    yield opened
    opened.close()
