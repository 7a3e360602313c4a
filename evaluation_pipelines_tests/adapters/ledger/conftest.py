from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa

from evaluation_pipelines.adapters.ledger.ledger import Ledger, open_ledger


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where a ledger will be; nothing is there yet."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'ledger.db'}"
        return
    server = sa.make_url(request.getfixturevalue("postgresql_server"))
    name = f"ledger_{uuid4().hex}"
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name} TEMPLATE template0"))
        yield server.set(database=name).render_as_string(hide_password=False)
        connection.execute(sa.text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    """A fresh ledger."""
    opened = open_ledger(url)
    yield opened
    opened.close()
