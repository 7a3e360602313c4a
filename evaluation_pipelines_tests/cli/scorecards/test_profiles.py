"""``profiles``: judge profiles."""

from datetime import UTC, datetime
from pathlib import Path

import yaml

from evaluation_pipelines.profiles.sync import set_definition
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.stores import open_stores
from evaluation_pipelines_tests.program import Program

PROFILE = """\
id: mine
version: {version}
name: Mine
match_labels: [{label}]
method: heuristic
criteria:
  - id: tool_count
    weight: {weight}
"""


def write(program: Program, version: int = 1, weight: int = 1, label: str = "code") -> Path:
    path = program.folder / "mine.yaml"
    path.write_text(PROFILE.format(version=version, weight=weight, label=label))
    return path


def cells(program: Program, *arguments: str) -> list[list[str]]:
    return program("profiles", "list", *arguments).table()


def test_the_shipped_profiles_are_listed_before_the_first_build(program: Program) -> None:
    listed = program("profiles", "list")

    assert listed.code == 0
    assert [row[0] for row in listed.table()[:5]] == [
        "code-hybrid",
        "default",
        "efficiency-simple",
        "general-performance",
        "incident-llm",
    ]
    assert "next build" in listed.out
    assert list(program.folder.iterdir()) == []  # nothing is written


def test_a_profile_is_registered_and_changed_and_gets_a_new_version(program: Program) -> None:
    assert program("profiles", "set", str(write(program))).out == "mine version 1 is registered\n"
    assert (program.folder / "data" / "profiles" / "mine.yaml").exists()
    again = program("profiles", "set", str(write(program)))
    assert again.out == "mine version 1 is already registered, nothing changed\n"
    changed = program("profiles", "set", str(write(program, label="ops")))
    assert changed.out == "mine version 1 is changed\n"

    refused = program("profiles", "set", str(write(program, weight=2)))
    assert refused.code == 1
    assert "mine version 1 is refused: it is registered with other content" in refused.err
    assert "set it to 2" in refused.err
    new = program("profiles", "set", str(write(program, version=2, weight=2)))
    assert new.out == "mine version 2 is registered\n"
    assert [row[:2] for row in cells(program, "--all") if row[0] == "mine"] == [
        ["mine", "1"],
        ["mine", "2"],
    ]


def test_rescoring_history_makes_its_dates_due(three_days: Program) -> None:
    three_days("build")
    done = three_days("profiles", "set", str(write(three_days)), "--rescore-history")

    assert "The next build scores sessions with it: 3 dates due" in done.out


def test_a_profile_is_shown_with_every_default(program: Program) -> None:
    shown = program("profiles", "list", "incident-llm")

    assert "# judge points: logical_flow 25, consistency 25" in shown.out
    assert "quality_risk_fraction: 0.5\n" in shown.out
    assert "sample_rate: 1.0\n" in shown.out
    unknown = program("profiles", "list", "nope")
    assert (unknown.code, "There is no profile nope" in unknown.err) == (1, True)


def test_a_label_that_resembles_a_known_one_is_a_warning(program: Program) -> None:
    warned = program("profiles", "set", str(write(program, label="coed")))
    assert warned.code == 0
    assert warned.err == "warning: no session has the label coed. Did you mean code?\n"


def test_a_profile_that_a_program_has_set_is_switched_in_the_ledger(three_days: Program) -> None:
    criteria = [{"id": "tool_count"}]
    sent = {"id": "sent", "name": "Sent", "match_labels": ["general"], "criteria": criteria}
    with open_stores(Settings(data_dir=three_days.folder / "data")) as stores:
        set_definition(stores, sent, datetime(2026, 1, 1, tzinfo=UTC))
    three_days("build")

    off = three_days("profiles", "switch", "sent", "off").out
    assert off == "sent is off (set over the API): 3 dates due\n"
    assert yaml.safe_load(three_days("profiles", "list", "sent").out)["enabled"] is False
    assert not (three_days.folder / "data/profiles/sent.yaml").exists()
    assert three_days("profiles", "switch", "sent", "on").out.startswith("sent is on (")
