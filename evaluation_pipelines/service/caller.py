"""The caller of a request and what it may see: organization, sessions, scores.

It is the holder of the key, or this machine while there are no keys.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import date

from fastapi.requests import HTTPConnection

from evaluation_pipelines.access.domain.keys import (
    LOCAL_CALLER,
    ROLE_MEANINGS,
    Caller,
    Role,
    narrowed,
)
from evaluation_pipelines.people.domain.identities import SentIds
from evaluation_pipelines.people.identity_store import IdentityStore, hidden_columns
from evaluation_pipelines.scorecards.blind_reviews import BlindReviews
from evaluation_pipelines.scorecards.domain.withheld import SessionKey
from evaluation_pipelines.service.errors import ServiceError, not_found
from evaluation_pipelines.service.installation import Installation, installation_of
from evaluation_pipelines.service.kept import kept_of
from evaluation_pipelines.service.limits import Limits, is_loopback, is_trusted
from evaluation_pipelines.sessions.domain.find_session import SessionNotFoundError, SessionRow
from evaluation_pipelines.sessions.find import SessionName, find
from evaluation_pipelines.settings.data import PeopleView
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.ledger.ingest_batches import SessionIndex

_FORWARDED = frozenset({b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip"})
_MAX_USER_CHARACTERS = 200
_SEND_A_KEY = "Send Authorization: Bearer KEY, with a key of evaluation-pipelines keys create."

KEY_COOKIE = "evaluation_pipelines_key"
"""Cookie of a browser that has logged in: its key."""


def caller_with(role: Role) -> Callable[[HTTPConnection], Caller]:
    """Return a dependency that gives the caller of a request or WebSocket.

    It raises 401 without an accepted key, and 403 if the key's role does not include ``role``.
    """

    def caller(connection: HTTPConnection) -> Caller:
        found = identify(connection)
        check_role(found, role)
        return found

    return caller


def check_role(caller: Caller, role: Role) -> None:
    """Raise 403 if the role of a caller does not include ``role``."""
    if not caller.role.includes(role):
        raise ServiceError(
            403,
            "role_lacking",
            f"The key {caller.name} has the role {caller.role}. This needs {role} "
            f"({ROLE_MEANINGS[role]}).",
            "Ask the operator of the service for a key with that role.",
        )


def check_all_organizations(caller: Caller) -> None:
    """Raise 403 if a caller is of one organization."""
    if caller.organization is not None:
        raise ServiceError(
            403,
            "all_organizations_needed",
            f"The key {caller.name} is for one organization. This needs a key for all.",
            "Ask the operator of the service for one created with --all-organizations.",
        )


def unrestricted_caller(role: Role) -> Callable[[HTTPConnection], Caller]:
    """Return a dependency like ``caller_with`` that refuses keys of one organization by 403."""
    with_role = caller_with(role)

    def caller(connection: HTTPConnection) -> Caller:
        found = with_role(connection)
        check_all_organizations(found)
        return found

    return caller


def identify(connection: HTTPConnection) -> Caller:
    """Return who sends a request; name and role also go to the access log.

    Raises:
        ServiceError: 401, no accepted key; 403, no group that may anything; 429, too many requests.
        LedgerError: the keys cannot be read.
    """
    installation = installation_of(connection)
    caller = _caller(connection, installation)
    if is_trusted(peer_of(connection), installation.settings.trusted_proxies):
        caller = _forwarded(caller, connection)
    connection.scope["caller"] = caller
    return caller


def _forwarded(caller: Caller, connection: HTTPConnection) -> Caller:
    """Return whom a proxy says it has let in, with what the groups of that person allow.

    If groups count and it names neither, the caller may only read figures, or write telemetry.
    """
    headers, grants = connection.headers, connection.app.state.grants
    user = headers.get("x-forwarded-user", "").strip()[:_MAX_USER_CHARACTERS]
    groups = ",".join(headers.getlist("x-forwarded-groups")).strip()
    if grants and not (user or groups) and caller.role.includes(Role.READER):
        return replace(caller, role=Role.READER)
    if grants and (user or groups):
        found = narrowed(caller, grants, {word.strip() for word in groups.split(",")})
        if found is None:
            raise ServiceError(
                403,
                "group_lacking",
                "No group from the proxy has rights here.",
                "Ask the operator of the service to add one to EVAL_FORWARDED_GROUPS.",
            )
        caller = found
    return replace(caller, name=user) if user else caller


def _caller(connection: HTTPConnection, installation: Installation) -> Caller:
    limits: Limits = connection.app.state.limits
    scheme, _, text = connection.headers.get("authorization", "").partition(" ")
    if not scheme:
        text = connection.cookies.get(KEY_COOKIE, "")
    text = text.strip()
    is_key = text and scheme.lower() in {"", "bearer"}
    if is_key and (found := installation.keys.caller(text)):
        limits.check_key(found.key_id)
        return found
    if scheme or text:
        limits.check_wrong_key(connection.scope["client_address"])
    if scheme or installation.keys.has_keys():
        raise _unknown("The request has no accepted key.")
    # The address of a proxy on this machine is loopback, too: its visitors are not.
    is_forwarded = any(name in _FORWARDED for name, _ in connection.scope["headers"])
    if is_forwarded or not is_loopback(peer_of(connection)):
        raise _unknown(
            "Without keys only programs on this machine are answered, and none through a proxy.",
            "Make a key there: evaluation-pipelines keys create NAME --role operator "
            "--all-organizations. Then load this page again, or send Authorization: Bearer KEY.",
        )
    return LOCAL_CALLER


def peer_of(connection: HTTPConnection) -> str:
    """Return the address at the other end of a connection; empty if there is none."""
    client = connection.scope.get("client")
    return client[0] if client else ""


def _unknown(
    message: str,
    help_text: str = _SEND_A_KEY,
) -> ServiceError:
    return ServiceError(401, "no_key", message, help_text, {"WWW-Authenticate": "Bearer"})


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
