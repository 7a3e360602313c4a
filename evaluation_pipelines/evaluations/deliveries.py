"""What receivers of evaluations have, in the ledger: their positions, failures and refusals."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime
from hashlib import sha256

import sqlalchemy as sa

from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.ledger.engine import insert_into, reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.evaluations import (
    EVALUATION_RECEIVERS,
    EVALUATION_REFUSALS,
)
from evaluation_pipelines.storage.lock import Hold

OTLP, FILES, WEBHOOK = "otlp", "files", "webhook"
"""Names of receivers, of webhooks with their own name behind it."""

_RECEIVER, _REFUSAL = EVALUATION_RECEIVERS.c, EVALUATION_REFUSALS.c


def receiver_names(settings: Settings) -> set[str]:
    """Return the names of the receivers of the settings."""
    found = {f"{WEBHOOK} {name}" for name in settings.webhooks}
    if settings.export_otlp_endpoint is not None:
        found.add(OTLP)
    return found if settings.export_files_dir is None else {*found, FILES}


@dataclass(frozen=True, slots=True)
class ReceiverState:
    """A row of ``evaluation_receivers``."""

    name: str
    address_hash: str
    position: int = 0
    failures: int = 0
    failing_since: datetime | None = None
    next_try_at: datetime | None = None
    last_error: str | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A row of ``evaluation_refusals``: evaluations of a session that a receiver refused."""

    receiver: str
    organization_id: str
    session_key: str
    session_date: date
    after: int
    reason: str
    refused_at: datetime


class Deliveries:
    """Operations on receivers and refusals, each in one transaction."""

    _KEY = ("receiver", "organization_id", "session_key")

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def state(self, name: str, address: str) -> ReceiverState:
        """Return the state of a receiver. At another address it is new."""
        new = ReceiverState(name, sha256(address.encode()).hexdigest())
        (known,) = [state for state in self.states() if state.name == name] or [new]
        return known if known.address_hash == new.address_hash else new

    def states(self) -> list[ReceiverState]:
        """Return the states of all receivers, also of former ones."""
        query = sa.select(EVALUATION_RECEIVERS).order_by(_RECEIVER.name)
        with reading(self._engine) as connection:
            return [ReceiverState(**row) for row in connection.execute(query).mappings()]

    def refusals(self) -> list[Refusal]:
        """Return all refusals that remain."""
        query = sa.select(EVALUATION_REFUSALS).order_by(_REFUSAL.receiver, _REFUSAL.after)
        with reading(self._engine) as connection:
            return [Refusal(**row) for row in connection.execute(query).mappings()]

    def put(self, hold: Hold, state: ReceiverState, refused: Sequence[Refusal] = ()) -> None:
        """Store the state of a receiver, with new refusals."""
        with writing(self._engine) as connection:
            hold.check(connection)
            row = asdict(state)
            insert = insert_into(connection, EVALUATION_RECEIVERS).values(row)
            connection.execute(
                insert.on_conflict_do_update(index_elements=[_RECEIVER.name], set_=row)
            )
            for refusal in refused:
                row = asdict(refusal)
                insert = insert_into(connection, EVALUATION_REFUSALS).values(row)
                # The oldest position stays: nothing was accepted since.
                again = {"reason": refusal.reason, "refused_at": refusal.refused_at}
                connection.execute(
                    insert.on_conflict_do_update(index_elements=self._KEY, set_=again)
                )

    def delete(self, refusal: Refusal) -> None:
        """Delete a refusal: nothing of it is left to send."""
        is_it = (_REFUSAL[name] == getattr(refusal, name) for name in self._KEY)
        with writing(self._engine) as connection:
            connection.execute(sa.delete(EVALUATION_REFUSALS).where(*is_it))
