"""Files of identities: what they may say, and how a fault is told."""

from datetime import date

import pytest

from evaluation_pipelines.people.domain.identities import Identifier, Membership, SentIds
from evaluation_pipelines.people.domain.parse import IdentitiesError, parse_identities
from evaluation_pipelines.telemetry.domain.dialects.registry import SOURCE_CLIS

FILE = """\
people:
  bob:
    ids:
      - host_user: bob
  ada:
    name: Ada Ash
    team:
      - {team: platform, to: 2026-06-30}
      - {team: search, from: 2026-07-01}
    ids:
      - email: Ada@Orchard.example
      - user_id: 0123
        from: 2026-01-01
        to: 2026-03-31
      - account_id: yes
        agent: claude_code
"""


def faults(text: str) -> list[str]:
    """The lines of the error of a file."""
    with pytest.raises(IdentitiesError) as raised:
        parse_identities(text, "f.yaml")
    return str(raised.value).splitlines()


def ids(*lines: str) -> str:
    """A file of ada and bob: lines of one id each, the first one is Ada's, on line 4."""
    first, *others = lines
    bob = "".join(f"      - {other}\n" for other in others)
    of_bob = f"  bob:\n    ids:\n{bob}" if others else ""
    return f"people:\n  ada:\n    ids:\n      - {first}\n{of_bob}"


def test_people_are_sorted_and_texts_stay_as_they_are_written() -> None:
    ada, bob = parse_identities(FILE, "f.yaml").people
    assert (ada.person_id, ada.name, bob.name) == ("ada", "Ada Ash", "bob")
    assert ada.teams == (
        Membership(team="platform", last=date(2026, 6, 30)),
        Membership(team="search", first=date(2026, 7, 1)),
    )
    first, last = date(2026, 1, 1), date(2026, 3, 31)
    assert ada.ids == (
        Identifier(kind="email", value="Ada@Orchard.example"),
        Identifier(kind="user_id", value="0123", first=first, last=last),
        Identifier(kind="account_id", value="yes", agent="claude_code"),
    )


@pytest.mark.parametrize("text", ["", "# nothing\n", "people: {}\n"])
def test_a_file_may_have_no_people(text: str) -> None:
    assert parse_identities(text, "f.yaml").people == ()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("people: [ada]\n", "line 1: people is not a mapping (key: value)"),
        ("- ada\n", "line 1: the file is not a mapping (key: value)"),
        ("{}\n", "line 1: the file has no people"),
        ("folk: {}\n", "line 1: the file has 'folk', which is not one of people"),
        ("people:\n  ada:\n", "line 2: person 'ada' is not a mapping (key: value)"),
        (
            "people:\n  ada: {nam: x}\n",
            "line 2: person 'ada' has 'nam', which is not one of name, team, ids",
        ),
        ("people:\n  ada: {}\n  ada: {}\n", "line 3: people has 'ada' more than once"),
        ("people:\n  ada: {name: }\n", "line 2: name is not a text"),
        ("people:\n  ada: {ids: x}\n", "line 2: ids is not a list (- item)"),
        ("people:\n  ada: {team: [{to: 2026-01-01}]}\n", "line 2: an entry of team has no team"),
        (
            'people:\n  "a\\nb": {}\n',
            "line 2: the key of a person must have 1 to 200 printable characters",
        ),
        (
            ids("{agent: codex}"),
            "line 4: an entry of ids must have one of email, user_id, account_id, host_user",
        ),
        (
            ids("{email: a@x, user_id: a}"),
            "line 4: an entry of ids must have one of email, user_id, account_id, host_user",
        ),
        (
            ids("{email: a@x, agent: clod}"),
            f"line 4: agent 'clod' is not one of {', '.join(SOURCE_CLIS)}",
        ),
        (
            ids("{email: a@x, from: 2026-02-01, to: 2026-01-31}"),
            "line 4: from 2026-02-01 is after to 2026-01-31",
        ),
        (
            ids("{email: a@x, from: tomorrow}"),
            "line 4: from 'tomorrow' is not a date such as 2026-11-21",
        ),
        (ids("{email: a@x, email: b@x}"), "line 4: an id has 'email' more than once"),
        (ids("{email: [a@x]}"), "line 4: email is not a text"),
        # Two people at one time: e-mails are the same in capitals, the last day is included.
        (
            ids("email: a@x", "email: A@X"),
            "line 7: email 'A@X' is of 'bob' and of 'ada' at one time (see line 4)",
        ),
        (
            ids("{user_id: a, to: 2026-06-30}", "{user_id: a, from: 2026-06-30}"),
            "line 7: user_id 'a' is of 'bob' and of 'ada' at one time (see line 4)",
        ),
        (
            ids("user_id: a", "{user_id: a, agent: codex}"),
            "line 7: user_id 'a' is of 'bob' and of 'ada' at one time (see line 4)",
        ),
        (
            ids("email: a@x", "user_id: b", "{user_id: b, from: 2026-01-01}"),
            "line 8: user_id 'b' is of 'bob' twice at one time (see line 7)",
        ),
        (
            "people:\n  ada:\n    team:\n    - {team: a}\n    - {team: b, from: 2026-01-01}\n",
            "line 5: 'ada' is in two teams at one time (see line 4)",
        ),
    ],
)
def test_a_fault_is_told_with_its_line(text: str, fault: str) -> None:
    assert faults(text) == [f"f.yaml, {fault}"]


def test_all_faults_of_the_entries_are_told_at_once() -> None:
    text = ids("{agent: clod, email: a@x}", "{email: }", "{user_id: a, to: never}")
    assert [fault.partition(": ")[0] for fault in faults(text)] == [
        "f.yaml, line 4",
        "f.yaml, line 7",
        "f.yaml, line 8",
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("people: [", "f.yaml is not YAML: while parsing"),
        ("people:\n  ada: &a {}\n  bob: *a\n", "f.yaml has YAML aliases (*name). Write out"),
        ("people: \x00", "f.yaml is not YAML: "),
    ],
)
def test_what_is_not_plain_yaml_is_refused(text: str, fault: str) -> None:
    assert faults(text)[0].startswith(fault)


@pytest.mark.parametrize(
    "lines",
    [
        ("{user_id: a, to: 2026-06-29}", "{user_id: a, from: 2026-06-30, to: 2026-06-30}"),
        ("{user_id: a, agent: codex}", "{user_id: a, agent: genai}"),
        ("user_id: a", "account_id: a"),
        ("user_id: a", "user_id: A"),
    ],
)
def test_an_id_may_be_of_others_at_other_times_or_in_other_programs(lines: tuple[str, ...]) -> None:
    assert len(parse_identities(ids(*lines), "f.yaml").people) == 2


def test_the_team_is_that_of_the_day() -> None:
    ada, bob = parse_identities(FILE, "f.yaml").people
    days = [date(2026, 6, 30), date(2026, 7, 1)]
    assert [ada.team_on(day) for day in days] == ["platform", "search"]
    assert bob.team_on(days[0]) is None


def sent(**said: str | None) -> SentIds:
    nothing: dict[str, str | None] = dict.fromkeys(SentIds._fields[2:])
    agent = said.pop("agent", "claude_code")
    day = date.fromisoformat(said.pop("day", None) or "2026-02-01")
    return SentIds(agent, day, **(nothing | said))


@pytest.mark.parametrize(
    ("said", "person"),
    [
        ({"email": "ADA@orchard.example"}, "ada"),
        ({"user_id": "0123"}, "ada"),
        ({"user_id": "0123", "day": "2026-04-01"}, "0123"),
        ({"account_id": "yes"}, "ada"),
        ({"account_id": "yes", "agent": "codex"}, "yes"),
        ({"account_id": "hash", "host_user": "bob"}, "bob"),
        # The ids of two people: the e-mail says more than the machine.
        ({"email": "ada@orchard.example", "host_user": "bob"}, "ada"),
        # In no entry: the e-mail, then a user id that was given, then the anonymous hash.
        ({"email": "Eve@x", "user_id": "eve", "account_id": "hash"}, "eve@x"),
        ({"user_id": "eve", "account_id": "hash"}, "eve"),
        ({"account_id": "hash", "host_user": "root"}, "hash"),
        ({"host_user": "root"}, None),
        ({}, None),
    ],
)
def test_who_a_session_is_of(said: dict[str, str | None], person: str | None) -> None:
    assert parse_identities(FILE, "f.yaml").person_of(sent(**said)) == person
