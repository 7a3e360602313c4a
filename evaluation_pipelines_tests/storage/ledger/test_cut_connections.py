"""A PostgreSQL server that goes away in the middle of a step."""

import gc
import traceback
import warnings

import pytest
import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.engine import reading, writing
from evaluation_pipelines.storage.ledger.errors import LedgerUnavailableError
from evaluation_pipelines.storage.ledger.ledger import Ledger

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
