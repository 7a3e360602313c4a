"""Names as people type them."""

from evaluation_pipelines.people.domain.identities import Identifier, Identities, Person
from evaluation_pipelines.sessions.domain.session_filter import (
    hint,
    people_named,
    repositories_named,
)

WHO = Identities(
    people=(
        Person(
            person_id="finn",
            name="Finn Falk",
            ids=(
                Identifier(kind="email", value="finn@orchard.example"),
                Identifier(kind="user_id", value="u-7"),
            ),
        ),
        Person(person_id="gone", name="Finn Falk"),
    )
)


def test_a_repository_has_a_short_name() -> None:
    known = ["https://git.example/a/shop.git", "b/shop", "c/web"]
    assert repositories_named("shop", known) == ["b/shop", "https://git.example/a/shop.git"]
    assert repositories_named("web", known) == ["c/web"]
    assert repositories_named("b/shop", known) == []


def test_a_person_has_ids_and_a_name() -> None:
    for given in ("Finn@orchard.example", "u-7", "finn falk"):
        assert people_named(given, {"finn", "ada@x"}, WHO) == ["finn"]
    assert people_named("Ada@X", {"finn", "ada@x"}, WHO) == ["ada@x"]
    assert people_named("U-7", {"finn"}, WHO) == []
    assert people_named("gone", {"ada@x"}, WHO) == ["gone"]  # known, without a session


def test_near_names_are_offered_and_else_some_that_are_known() -> None:
    assert hint("Aspen", ["aspen-4", "birch-2"]) == "did you mean 'aspen-4'?"
    many = "known: 'm0', 'm1', 'm2', 'm3', 'm4' and 2 more"
    assert hint("zzzz", [f"m{at}" for at in range(7)]) == many
