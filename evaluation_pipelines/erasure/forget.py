"""Forget a person, a user, a session or an organization, in every store.

First the keyed hashes of what must not come back are committed: from then on no ingest stores any
of it. Everything after that takes out what these hashes name, wherever it is. A run that is killed
loses nothing of that: the next one, of whatever subject, finds the same hashes and does the rest.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from evaluation_pipelines.erasure.aggregates import erase_reputation, make_aggregates_again
from evaluation_pipelines.erasure.context import (
    ErasureContext,
    NotForgottenError,
    NothingKnownError,
)
from evaluation_pipelines.erasure.domain.subject import Subject
from evaluation_pipelines.erasure.identities import erase_identities
from evaluation_pipelines.erasure.landing_files import LandingTrace, landing_traces
from evaluation_pipelines.erasure.ledger_rows import Erasure, Erasures, erase_ledger_rows
from evaluation_pipelines.erasure.parts import delete_old_files, erase_parts
from evaluation_pipelines.erasure.selection import Selection, select
from evaluation_pipelines.reporting.served_copy import served_copy
from evaluation_pipelines.storage.ledger.ledger import reclaim
from evaluation_pipelines.storage.lock import ERASE, Hold, LockLostError, LockTimeoutError, held
from evaluation_pipelines.storage.secret_key import make_key
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.domain.forgotten import Forgotten
from evaluation_pipelines.telemetry.ledger.forgotten_store import read_forgotten


@dataclass(frozen=True, slots=True)
class Forgot:
    """Result of forgetting.

    Attributes:
        erasure: Its record.
        selection: What was to be forgotten.
        landing: Landing files that had, or still have, telemetry of it.
        identities_are_clean: False if the file of identities still has an entry.
    """

    erasure: Erasure
    selection: Selection
    landing: Sequence[LandingTrace]
    identities_are_clean: bool


@dataclass(frozen=True, slots=True)
class Forget:
    """Forgets one subject after the other.

    With ``rewrite_landing`` landing files that no other program has open are rewritten. ``done``
    is called after each commit.
    """

    stores: Stores
    requested_by: str
    rewrite_landing: bool = False
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    done: Callable[[str], None] = lambda _what: None

    def run(self, subject: Subject) -> Forgot:
        """Take every trace of a subject out of every store; run again after an error or a kill.

        Raises:
            NothingKnownError: Nothing is known of the subject; nothing was changed.
            NotForgottenError: Something could not be erased, or ClickHouse may have a copy of the
                tables that nothing here reaches.
            LakeError: A table cannot be read or written.
            LedgerError: The ledger cannot be used.
            ClickHouseError: ClickHouse cannot be used.
        """
        if copy := served_copy(self.stores.settings):
            raise NotForgottenError(f"Nothing was forgotten: {copy.seen}. First {copy.advice}.")
        timeout_s = self.stores.settings.lock_timeout_seconds
        try:
            with held(self.stores.ledger, ERASE, timeout_s=timeout_s) as hold:
                return self._run(subject, hold)
        except LockTimeoutError as error:
            if error.name == ERASE:
                raise NotForgottenError(f"Something else is being forgotten: {error}") from error
            raise NotForgottenError(f"Not all is forgotten: {error} Run this again.") from error
        except LockLostError as error:
            raise NotForgottenError(f"Not all is forgotten. {error} Run this again.") from error

    def _run(self, subject: Subject, hold: Hold) -> Forgot:
        selection = select(self.stores, subject)
        known = read_forgotten(self.stores.ledger, self.stores.settings.forgotten_key_path)
        if selection.is_empty and not is_known(known, subject):
            raise NothingKnownError(subject, selection.people)
        context = self._begun(selection, hold)
        erase_ledger_rows(hold, context.forgotten, context.erasure_id)
        context.done("ledger")
        is_clean = erase_identities(context)
        erase_parts(context)
        # Whatever a judge that was at work has written meanwhile.
        erase_ledger_rows(hold, context.forgotten, context.erasure_id)
        erase_reputation(context)
        make_aggregates_again(context)
        delete_old_files(context)
        landing = landing_traces(context, rewrite=self.rewrite_landing)
        hold.check()
        reclaim(self.stores.ledger)
        context.done("ledger files")
        erasures = Erasures(self.stores.ledger)
        erasures.complete(self.clock())
        (erasure,) = (e for e in erasures.all() if e.erasure_id == context.erasure_id)
        return Forgot(erasure, selection, landing, is_clean)

    def _begun(self, selection: Selection, hold: Hold) -> ErasureContext:
        """Commit what must not come back."""
        settings, subject, now = self.stores.settings, selection.subject, self.clock()
        forgotten = Forgotten(make_key(settings.forgotten_key_path))
        hashes = hashes_of(selection, forgotten, now)
        erasures = Erasures(self.stores.ledger)
        erasure_id = erasures.begin(subject.kind, self.requested_by, hashes, now)
        self.done("hashes")
        forgotten = read_forgotten(self.stores.ledger, settings.forgotten_key_path)
        return ErasureContext(self.stores, forgotten, erasure_id, hold, self.clock, self.done)


def is_known(forgotten: Forgotten, subject: Subject) -> bool:
    """Return True if a subject was forgotten before, perhaps not to the end."""
    match subject.kind:
        case "session":
            return forgotten.hash_of("session_id", subject.value) in forgotten.hashes
        case "organization":
            return forgotten.has_organization(subject.value)
        case _:
            return forgotten.has_id(subject.value)


def hashes_of(
    selection: Selection, forgotten: Forgotten, now: datetime
) -> dict[str, datetime | None]:
    """Return the hashes of a selection, with the time up to which each counts.

    A session never comes back; what a person or an organization does from ``now`` on is new.
    """
    hashes: dict[str, datetime | None] = {
        hashed: None
        for organization, session in selection.sessions.iter_rows()
        for hashed in forgotten.hashes_of_session(organization, session)
    }
    hashes |= {forgotten.hash_of_id(each): now for each in selection.ids}
    if selection.subject.kind == "organization":
        hashes[forgotten.hash_of("organization", selection.subject.value)] = now
    return hashes
