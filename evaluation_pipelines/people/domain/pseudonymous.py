"""Identities without names of people."""

from evaluation_pipelines.people.domain.identities import Identifier, Identities, Person
from evaluation_pipelines.telemetry.domain.forgotten import Pseudonyms


def pseudonymous(identities: Identities, pseudonyms: Pseudonyms) -> Identities:
    """Return the identities with pseudonyms in place of ids and names; teams and dates stay."""
    people = (_person(each, pseudonyms) for each in identities.people)
    return Identities(people=tuple(sorted(people, key=lambda each: each.person_id)))


def _person(person: Person, pseudonyms: Pseudonyms) -> Person:
    own = pseudonyms.of(person.person_id)
    ids = tuple(_identifier(each, pseudonyms) for each in person.ids)
    return person.model_copy(update={"person_id": own, "name": own, "ids": ids})


def _identifier(identifier: Identifier, pseudonyms: Pseudonyms) -> Identifier:
    if identifier.kind == "account_id":  # stored as the agent program made it
        return identifier
    return identifier.model_copy(update={"value": pseudonyms.of(identifier.value)})
