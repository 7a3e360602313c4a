"""``docs/people.md`` says who is who, which commands choose sessions, and what is shown."""

import re

import pytest

from evaluation_pipelines.people.domain.parse import parse_identities
from evaluation_pipelines.people.identity_store import hidden_columns
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines_tests.cli.test_filters import COMMANDS
from evaluation_pipelines_tests.docs.documents import blocks, named, table_rows

TEXT = named("people.md")


def words(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", text))


def test_the_example_is_a_file_of_identities() -> None:
    (example,) = (block.body for block in blocks(TEXT) if block.language == "yaml")
    ada, ben = parse_identities(example, "example").people
    assert (ada.name, len(ada.ids), len(ben.teams)) == ("Ada Ash", 3, 2)


def test_the_columns_are_those_of_sessions() -> None:
    written = [
        words(row[0]).pop() for row in table_rows(TEXT, "## Person and repository of a session")
    ]
    assert set(written) <= set(AGENT_SESSIONS.schema)
    assert {"person_id", "team", "repository", "branch", "environment"} <= set(written)


def test_what_is_left_out_is_named() -> None:
    said = TEXT.partition("Hidden columns: ")[2].partition("Counts")[0]
    assert words(said) - {"off"} == hidden_columns("off")
    assert hidden_columns("team") == hidden_columns("off") - {"team", "team_id"}


@pytest.mark.parametrize("option", ["person", "team", "repository", "branch", "environment"])
def test_the_same_options_choose_sessions_in_every_command_that_is_named(option: str) -> None:
    said = " ".join(TEXT.split()).partition("choose sessions in ")[2].partition(".")[0]
    able = {
        name
        for name, command in COMMANDS.items()
        if name != "forget" and any(f"--{option}" in param.opts for param in command.params)
    }
    assert able == {word.removesuffix(" --fleet").removesuffix(" unknown") for word in words(said)}
