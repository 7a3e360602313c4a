"""Dates whose texts or events have expired."""

from collections.abc import Mapping
from datetime import date
from typing import Literal, TypeAlias, cast

import sqlalchemy as sa

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.storage.ledger.engine import reading
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.erasure import EXPIRED_DATES

Expired: TypeAlias = Literal["texts", "events"]

_SETTINGS = {"texts": "EVAL_KEEP_TEXTS_DAYS", "events": "EVAL_KEEP_EVENTS_DAYS"}


class DateExpiredError(UserError):
    """A date cannot be built again: what its tables are made from has expired."""

    def __init__(self, day: date, what: Expired) -> None:
        super().__init__(
            f"{day} is not built again: its {what} have expired ({_SETTINGS[what]}), and its "
            "figures would change. Its sessions and scores stay as they are."
        )


def expired_dates(ledger: Ledger) -> Mapping[date, Expired]:
    """Return what has expired of which dates; the events of a date go with its texts."""
    with reading(ledger.engine) as connection:
        rows = connection.execute(sa.select(EXPIRED_DATES.c.session_date, EXPIRED_DATES.c.what))
        return {day: cast(Expired, what) for day, what in rows}
