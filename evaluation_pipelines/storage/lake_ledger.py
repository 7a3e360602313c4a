"""The ledger that a lake belongs to, noted in the lake.

Files of the lake that the ledger does not name were left by crashes and are deleted. To a second
ledger over the same lake, or to a new one after the first was lost, all files look like that.
"""

import sqlalchemy as sa

from evaluation_pipelines.storage.lake import Lake, LakeError
from evaluation_pipelines.storage.ledger.engine import reading
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.telemetry import LEDGER_IDS
from evaluation_pipelines.storage.store import StoreError

_NOTE = "_ledger"


class OtherLedgerError(LakeError):
    """The lake belongs to another ledger."""


def check_ledger_of_lake(lake: Lake, ledger: Ledger, *, note: bool) -> None:
    """Refuse a lake of another ledger; with ``note`` a lake of none is noted as this one's.

    Raises:
        OtherLedgerError: The lake belongs to another ledger.
        LakeError: The note cannot be read or written.
    """
    with reading(ledger.engine) as connection:
        ledger_id = connection.execute(sa.select(LEDGER_IDS.c.ledger_id)).scalar_one()
    try:
        owner = _owner(lake) or (_noted(lake, ledger_id) if note else ledger_id)
    except StoreError as error:
        raise LakeError(f"cannot use {error}") from error
    except OSError as error:
        raise LakeError(
            f"{lake.where(_NOTE)}, which says to which ledger the lake belongs, cannot be used: "
            f"{error}; check space and permissions."
        ) from error
    if owner != ledger_id:
        raise OtherLedgerError(
            f"{lake.where()} belongs to another ledger than {_location(ledger)}. Restore that "
            "ledger, or set EVAL_LEDGER_URL to it. If it is lost, move the lake away and run "
            "ingest: what the landing folder still has is read again."
        )


def _owner(lake: Lake) -> str | None:
    try:
        return lake.store.get(_NOTE).decode(errors="replace")
    except FileNotFoundError:
        return None


def _noted(lake: Lake, ledger_id: str) -> str | None:
    try:
        lake.store.put(_NOTE, ledger_id.encode(), shared=False)
    except FileExistsError:  # another process was faster
        return _owner(lake)
    return ledger_id


def _location(ledger: Ledger) -> str:
    return ledger.engine.url.render_as_string(hide_password=True)
