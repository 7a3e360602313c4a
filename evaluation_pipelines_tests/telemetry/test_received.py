"""Telemetry that came with a key: its folder, and the organization of its records."""

import json
from pathlib import Path

import pytest

from evaluation_pipelines.storage.received_files import organization_of, received_folder
from evaluation_pipelines_tests.telemetry.domain.reading import read, read_one
from evaluation_pipelines_tests.workplace import open_workplace
from evaluation_pipelines_tests.world import claude, line, session


@pytest.mark.parametrize(
    ("organization", "folder"),
    [
        ("acme", "received/acme"),
        ("a/b", "received/a%2Fb"),
        ("..", "received/%2E."),
        (".hidden", "received/%2Ehidden"),
        ("_", "received/%5F"),
        ("_x", "received/%5Fx"),
        ("a_b.c~d", "received/a_b.c%7Ed"),
        ("Ä b", "received/%C3%84%20b"),
        ("2026-12-01", "received/2026-12-01"),
        (None, "received/_"),
    ],
)
def test_a_folder_says_whose_its_files_are(organization: str | None, folder: str) -> None:
    assert received_folder(organization) == folder
    assert organization_of(f"{folder}/2026-12-01/09-aa.jsonl") == organization


@pytest.mark.parametrize("path", ["logs.jsonl", "received/logs.jsonl", "a/received/acme/x.jsonl"])
def test_other_files_say_nothing(path: str) -> None:
    assert organization_of(path) is None


@pytest.mark.parametrize("organization", ["", "é" * 43])  # 43 letters of 6 characters are 258
def test_a_name_that_gives_no_folder_is_an_error(organization: str) -> None:
    with pytest.raises(ValueError, match="organization"):
        received_folder(organization)


def event(organization: str | None, **resource: object) -> dict[str, object]:
    said = line(claude("user_prompt", event__sequence=1, prompt__id="p"), **resource)
    return read_one(said, organization=organization)


def test_what_came_with_a_key_is_of_its_organization_whatever_it_says() -> None:
    assert event(None)["organization_id"] == "default"
    assert event(None, organization__id="other")["organization_id"] == "other"
    assert event("acme")["organization_id"] == "acme"

    assigned = event("acme", organization__id="other")
    assert assigned["organization_id"] == "acme"
    assert json.loads(str(assigned["attributes"]))["organization.id"] == "other"


def test_what_it_says_is_kept_aside_only_if_it_is_another_one() -> None:
    assert "organization.id" not in str(event("acme", organization__id="acme")["attributes"])
    assert "organization.id" not in str(event("acme")["attributes"])


def test_an_attribution_line_applies_to_the_session_of_its_organization() -> None:
    don = b'{"session_id": "a", "masque": "M", "donned_at": "2026-06-01T11:00:00Z"}\n'
    for organization in (None, "acme", "other"):
        (row,) = read(don, organization=organization).events.to_dicts()
        assert row["organization_id"] == organization


@pytest.mark.parametrize("processes", [1, 2])
def test_ingest_takes_the_organization_from_the_path(tmp_path: Path, processes: int) -> None:
    said = session("s", organization__id="said")
    with open_workplace(tmp_path, ingest_processes=processes, parallel_from_bytes=1) as workplace:
        workplace.land(f"{received_folder('acme')}/2026-12-01/09-a.jsonl", said)
        workplace.land(f"{received_folder(None)}/2026-12-01/09-b.jsonl", said)
        workplace.land("logs.jsonl", said.replace(b'"s"', b'"t"'))
        workplace.ingest()
        landed = workplace.landed()

    found = landed.group_by("organization_id", "session_id").len().sort("organization_id")
    assert sorted(found.rows()) == [("acme", "s", 2), ("said", "s", 2), ("said", "t", 2)]
