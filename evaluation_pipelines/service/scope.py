"""What a caller may see: its organization, the sessions in it, and which of their scores."""

from datetime import date

from fastapi.requests import HTTPConnection

from evaluation_pipelines.access.domain.keys import Caller, Role
from evaluation_pipelines.people.domain.identities import SentIds
from evaluation_pipelines.people.identity_store import IdentityStore, hidden_columns
from evaluation_pipelines.scorecards.blind_reviews import BlindReviews
from evaluation_pipelines.scorecards.domain.withheld import SessionKey
from evaluation_pipelines.service.errors import not_found
from evaluation_pipelines.service.kept import kept_of
from evaluation_pipelines.sessions.domain.find_session import SessionNotFoundError, SessionRow
from evaluation_pipelines.sessions.find import SessionName, find
from evaluation_pipelines.settings.data import PeopleView
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.ledger.ingest_batches import SessionIndex


def organization_of(caller: Caller, wanted: str | None = None) -> str | None:
    """Return the organization to filter by; None for all.

    Raises:
        ServiceError: 404, ``wanted`` is another one than the caller's.
    """
    if wanted is not None and not caller.sees(wanted):
        raise not_found("The organization")
    return caller.organization or wanted


def sees_texts(caller: Caller) -> bool:
    """Return True if a caller may read what people, agents and tools wrote."""
    return caller.role.includes(Role.REVIEWER)


def sees_people(caller: Caller, view: PeopleView) -> bool:
    """Return True if a caller may see single people: their names are in the texts, too."""
    return view == "person" and sees_texts(caller)


def hidden_from(caller: Caller, view: PeopleView) -> frozenset[str]:
    """Return the columns of people and teams that a caller must not see."""
    is_less = view == "person" and not sees_people(caller, view)
    return hidden_columns("team" if is_less else view)


def waiting_for(connection: HTTPConnection, caller: Caller) -> frozenset[SessionKey]:
    """Return the sessions whose scores are withheld from a caller.

    They wait for a blind review, which the caller may still give. Keys of the role reader cannot
    review, and so they see every score.

    Raises:
        LedgerError: The ledger cannot be used.
        LakeError: A file cannot be read.
    """
    return waiting_of(kept_of(connection).reviews, caller)


def waiting_of(reviews: BlindReviews, caller: Caller) -> frozenset[SessionKey]:
    """Return the same where there is no request."""
    return reviews.waiting_for({caller.name}) if sees_texts(caller) else frozenset()


def person_of(stores: Stores, caller: Caller, today: date) -> str:
    """Return the person id of a caller: of an email address, whose it is by the identities.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    name = caller.name
    if "@" not in name:
        return name
    sent = SentIds(None, today, email=name, user_id=None, account_id=None, host_user=None)
    return IdentityStore(stores.ledger).current().person_of(sent) or name


def is_person(person_id: str | None, person: str) -> bool:
    """Return True if an id of sessions is that of a person."""
    if person_id is None or "@" not in person_id:  # ids may differ in case alone
        return person_id == person
    return person_id.lower() == person.lower()


def find_window(
    stores: Stores, caller: Caller, session: str, organization: str | None = None
) -> SessionRow:
    """Return the row of ``agent_sessions`` that a caller names.

    Raises:
        ServiceError: 404, another organization.
        SessionNotFoundError: No window that the caller may see has this name.
        AmbiguousSessionError: Several have it.
    """
    return find(stores, SessionName(session, organization_of(caller, organization)))


def check_known(stores: Stores, caller: Caller, session: str) -> None:
    """Check that some window of a session that the caller sees may have this key or id.

    Raises:
        SessionNotFoundError: No telemetry of it has arrived, or only of other organizations.
    """
    session_ids = {session, session.rpartition("#")[0]}
    known = SessionIndex(stores.ledger).dates_by_session_id(session_ids)
    if not any(caller.sees(owner) for pairs in known.values() for owner, _ in pairs):
        raise SessionNotFoundError(session)
