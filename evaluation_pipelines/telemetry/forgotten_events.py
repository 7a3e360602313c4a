"""What is stored of events that are read: nothing that was forgotten, and pseudonyms if wanted."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from evaluation_pipelines.settings.data import PeopleSettings
from evaluation_pipelines.storage.store import make_key
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.domain.forgotten import (
    Forgotten,
    Pseudonyms,
    is_forgotten_event,
    names_forgotten,
    subagents_of,
    with_forgotten_work,
)
from evaluation_pipelines.telemetry.domain.organizations import (
    NO_ORGANIZATION,
    named_organizations,
)
from evaluation_pipelines.telemetry.domain.outcome_lines import LateOutcome
from evaluation_pipelines.telemetry.ledger.forgotten_store import read_forgotten
from evaluation_pipelines.telemetry.ledger.ingest_batches import LeftOut


@dataclass(frozen=True, slots=True)
class KeptEvents:
    """Events without those of forgotten sessions, and ``number`` of what was left out."""

    events: pl.DataFrame
    number: int
    left_out: LeftOut


class ForgottenEvents:
    """Leaves out events of what was forgotten, as the ledger has it at each call.

    What is kept has pseudonyms where the settings say so.
    """

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._forgotten = Forgotten()
        self._pseudonyms = pseudonyms_of(stores.settings)

    def leave_out(self, events: pl.DataFrame) -> KeptEvents:
        """Return the events that are kept.

        Raises:
            SecretKeyError: The key of what was forgotten is missing.
        """
        settings = self._stores.settings
        known = self._forgotten = read_forgotten(
            self._stores.ledger, settings.forgotten_key_path, self._forgotten
        )
        stored = events if self._pseudonyms is None else self._pseudonyms.events(events)
        if not known or events.is_empty():
            return KeptEvents(stored, 0, LeftOut(known.version))
        # Someone may have been forgotten by an id as it was sent, or by a pseudonym.
        events = with_forgotten_work(events, known)
        is_gone = is_forgotten_event(events, known) | is_forgotten_event(
            with_forgotten_work(stored, known), known
        )
        gone = events.filter(is_gone).select("organization_id", "session_id").unique()
        # Later records of them may name no organization.
        named = named_organizations(gone, by=("session_id",))
        subagents = ((org, session) for org, _, session in subagents_of(events.filter(is_gone)))
        nameless = ((NO_ORGANIZATION, session) for session in named["session_id"])
        hashes = frozenset(
            hashed
            for organization, session in (*gone.iter_rows(), *nameless, *subagents)
            for hashed in known.session_hashes(organization, session)
        )
        return KeptEvents(
            stored.filter(~is_gone),
            int(is_gone.sum()),
            LeftOut(known.version, hashes - known.hashes.keys()),
        )

    def left_outcomes(self, outcomes: Sequence[LateOutcome]) -> tuple[LateOutcome, ...]:
        """Return outcomes of sessions not forgotten, as of the last ``leave_out``."""
        return tuple(
            outcome for outcome in outcomes if not is_forgotten_outcome(outcome, self._forgotten)
        )

    def first_bytes(self, text: str) -> str:
        """Return what the quarantine keeps of a line: nothing where ids become pseudonyms."""
        return text if self._pseudonyms is None else ""

    def names(self, text: str) -> bool:
        """Return True if a text has a word that was forgotten, as of the last call."""
        return bool(self._forgotten) and names_forgotten(text, self._forgotten)


def is_forgotten_outcome(outcome: LateOutcome, forgotten: Forgotten) -> bool:
    """Return whether an outcome is of a forgotten session or names something forgotten."""
    organization, session_id = outcome.organization_id, outcome.session_id
    return bool(forgotten) and (
        forgotten.has_session(organization, session_id)
        or forgotten.has_organization(organization)
        or names_forgotten(f"{session_id} {outcome.reference}", forgotten)
    )


def pseudonyms_of(settings: PeopleSettings) -> Pseudonyms | None:
    """Return the pseudonyms by the key of the settings, which is made if it is missing.

    None where ids are stored as they are.

    Raises:
        SecretKeyError: The file of the key has none.
        OSError: It cannot be read or written.
    """
    return Pseudonyms(make_key(settings.pseudonym_key_path)) if settings.pseudonymize else None


def all_pseudonyms(settings: PeopleSettings) -> Pseudonyms | None:
    """Return the pseudonyms that stored ids may be, also where new ids are stored as they are.

    Raises:
        SecretKeyError: The file of the key has none.
        OSError: It cannot be read or written.
    """
    path = settings.pseudonym_key_path
    return Pseudonyms(make_key(path)) if settings.pseudonymize or path.exists() else None
