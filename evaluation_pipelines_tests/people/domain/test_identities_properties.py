"""Properties of identities: an accepted file leaves no doubt, and nothing is lost in the ledger."""

from collections.abc import Sequence
from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.people.domain.identities import Identities, SentIds
from evaluation_pipelines.people.domain.parse import IdentitiesError, parse_identities

FIRST = date(2026, 1, 1)
DAYS = [FIRST + timedelta(days=number) for number in range(6)]
AGENTS = (None, "codex", "genai")

entries = st.tuples(
    st.sampled_from(("ada", "bob")),
    st.sampled_from(("user_id: a", "user_id: b", "email: a")),
    st.sampled_from(AGENTS),
    st.sampled_from((None, *DAYS)),
    st.sampled_from((None, *DAYS)),
)
Entry = tuple[str, str, str | None, date | None, date | None]


def written(entries: Sequence[Entry]) -> str:
    """The file with these entries."""
    text = "people:\n"
    for person in ("ada", "bob"):
        text += f"  {person}:\n    ids:\n      - host_user: {person}\n"
        for owner, identifier, agent, first, last in entries:
            if owner == person:
                given = {"agent": agent, "from": first, "to": last}
                more = "".join(f", {key}: {value}" for key, value in given.items() if value)
                text += f"      - {{{identifier}{more}}}\n"
    return text


def owners(entries: Sequence[Entry], day: date, agent: str) -> list[str]:
    """Whose user id ``a`` is, entry by entry."""
    return [
        person
        for person, identifier, of, first, last in entries
        if identifier == "user_id: a"
        and of in {None, agent}
        and (first or day) <= day <= (last or day)
    ]


@given(st.lists(entries, max_size=5))
def test_an_id_has_at_most_one_owner_at_a_time_or_the_file_is_refused(
    entries: list[Entry],
) -> None:
    is_backwards = any(first and last and last < first for *_, first, last in entries)
    try:
        identities = parse_identities(written(entries), "f")
    except IdentitiesError:
        # b and the e-mail may be what is doubtful: without them only the first id is left.
        left = [entry for entry in entries if entry[1] == "user_id: a"]
        found = [owners(left, day, agent) for day in DAYS for agent in ("codex", "genai", "other")]
        assert is_backwards or len(left) < len(entries) or any(len(person) > 1 for person in found)
        return
    for day in DAYS:
        for agent in ("codex", "genai", "qwen_code"):
            of_day = owners(entries, day, agent)
            assert len(of_day) <= 1
            sent = SentIds(agent, day, None, "a", None, None)
            assert identities.person_of(sent) == (of_day[0] if of_day else "a")
    assert Identities.model_validate_json(identities.model_dump_json()) == identities
