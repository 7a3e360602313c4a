"""Names as people type them, and the names that sessions have."""

from collections.abc import Collection
from difflib import get_close_matches

from evaluation_pipelines.people.domain.identities import Identities, comparable
from evaluation_pipelines.sessions.domain.repositories import short_name

_SHOWN = 5
_NEAR = 0.5
"""From which similarity on, of 0 to 1, a known name may be what was meant."""


def repositories_named(given: str, known: Collection[str]) -> list[str]:
    """Return the repositories with a short name, in alphabetical order."""
    return sorted(each for each in known if short_name(each) == given)


def people_named(given: str, known: Collection[str], identities: Identities) -> list[str]:
    """Return the ids of the people with a name, an e-mail or another id; in alphabetical order.

    Those of whom there are sessions; if there are none, the others.

    Args:
        given: What was typed.
        known: Ids of people that sessions have.
        identities: Who is who.
    """
    found = {each for each in (*known, *identities.by_id) if each == comparable("email", given)}
    for person in identities.people:
        is_id = any(each.key == (each.kind, comparable(each.kind, given)) for each in person.ids)
        if is_id or person.name.casefold() == given.casefold():
            found.add(person.person_id)
    return sorted(found & set(known)) or sorted(found)


def hint(given: str, known: Collection[str]) -> str:
    """Return which known names may be meant, and else which there are.

    Names come from telemetry: they are quoted, so that none can imitate a line of output.
    """
    by_lower = {each.lower(): each for each in sorted(known)}
    near = get_close_matches(given.lower(), by_lower, n=3, cutoff=_NEAR)
    if near:
        return f"did you mean {' or '.join(repr(by_lower[each]) for each in near)}?"
    shown = ", ".join(repr(each) for each in sorted(known)[:_SHOWN]) or "none"
    more = len(known) - _SHOWN
    return f"known: {shown}{f' and {more} more' if more > 0 else ''}"
