"""A PostgreSQL server that goes away in the middle of a step."""

import gc
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from time import sleep

import pytest
import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.engine import lock_for_budget, reading, writing
from evaluation_pipelines.storage.ledger.errors import LedgerLockedError, LedgerUnavailableError
from evaluation_pipelines.storage.ledger.ledger import Ledger, open_ledger

BOUND = "the id of a session"


def cut_in_a_transaction(ledger: Ledger) -> None:
    with writing(ledger.engine) as one, ledger.engine.connect() as other:
        pid = one.scalar(sa.text("select pg_backend_pid()"))
        other.execute(sa.text("select pg_terminate_backend(:pid)"), {"pid": pid})
        one.execute(sa.text("select :value"), {"value": BOUND})


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_connection_that_is_cut_is_said_in_one_line_and_the_next_one_works(
    ledger: Ledger,
) -> None:
    with pytest.raises(LedgerUnavailableError, match="the connection failed") as raised:
        cut_in_a_transaction(ledger)
    assert "\n" not in str(raised.value)
    assert BOUND not in "".join(traceback.format_exception(raised.value))
    with reading(ledger.engine) as again:
        assert again.scalar(sa.text("select 1")) == 1
    del raised
    with warnings.catch_warnings():
        # The driver warns of a connection that ended without being closed.
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("away_s", [1.5, pytest.param(60, marks=pytest.mark.slow)])
@pytest.mark.parametrize("is_open", [True, False])
def test_a_ledger_that_is_away_is_waited_for(
    ledger: Ledger, url: str, caplog: pytest.LogCaptureFixture, away_s: float, *, is_open: bool
) -> None:
    """By who has used it before, and by a worker of a build that has."""
    name = sa.make_url(url).database
    server = sa.create_engine(
        sa.make_url(url).set(database="postgres"), isolation_level="AUTOCOMMIT"
    )
    end = sa.text("select pg_terminate_backend(pid) from pg_stat_activity where datname = :name")
    with server.connect() as connection:
        connection.execute(sa.text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false"))
        connection.execute(end, {"name": name})

        def come_back() -> None:
            sleep(away_s)
            connection.execute(sa.text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true"))

        with ThreadPoolExecutor(1) as pool:
            back = pool.submit(come_back)
            used = ledger if is_open else open_ledger(url, create=False, is_known=True)
            with reading(used.engine) as again:
                assert back.done()
                assert again.scalar(sa.text("select 1")) == 1
            used.close()
    server.dispose()
    (message,) = (each for each in caplog.messages if "cannot be reached" in each)
    assert message.endswith("waiting up to 120 s")


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_ledger_that_stays_away_is_an_error_and_so_is_one_that_never_answered(
    ledger: Ledger, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluation_pipelines.storage.ledger.engine.AWAY_S", 0.1)
    name = sa.make_url(url).database
    server = sa.create_engine(
        sa.make_url(url).set(database="postgres"), isolation_level="AUTOCOMMIT"
    )
    end = sa.text("select pg_terminate_backend(pid) from pg_stat_activity where datname = :name")
    with server.connect() as connection:
        connection.execute(sa.text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false"))
        connection.execute(end, {"name": name})
        for use in (lambda: reading(ledger.engine).__enter__(), lambda: open_ledger(url)):
            with pytest.raises(LedgerUnavailableError, match="the connection failed"):
                use()
        connection.execute(sa.text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true"))
    server.dispose()


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_lock_that_another_keeps_is_no_cut_connection_with_either_driver(
    url: str, driver: str
) -> None:
    pytest.importorskip(driver)
    named = sa.make_url(url).set(drivername=f"postgresql+{driver}")
    ledger = open_ledger(named.render_as_string(hide_password=False), lock_timeout=0.1)
    with writing(ledger.engine) as one:
        lock_for_budget(one)
        with (
            pytest.raises(LedgerLockedError, match="Find the run that hangs"),
            writing(ledger.engine) as other,
        ):
            lock_for_budget(other)
    ledger.close()
