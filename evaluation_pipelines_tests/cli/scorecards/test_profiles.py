"""``profiles``: judge profiles."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
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


FORM = "{{id: mine, version: 1, name: Mine, match_labels: [{label}], method: {method}, {more}}}"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"method": "llm", "more": "rubric: nonexistent"},
            "mine names the rubric nonexistent, which does not exist. Use one of: agent-",
        ),
        (
            {"more": "criteria: [{id: tool_count}], disqualifiers: ['.*']"},
            "the disqualifier '.*' matches every text",
        ),
        (
            {"more": "criteria: [{id: tool_count}], enabled: true, enabled: false"},
            "enabled occurs more than once in a mapping",
        ),
        (
            {"more": "criteria: [{id: tool_count, weight: 1, weight: 2}]"},
            "weight occurs more than once in a mapping",
        ),
    ],
)
def test_a_profile_that_could_not_score_is_refused(
    program: Program, values: dict[str, str], message: str
) -> None:
    file = program.folder / "mine.yaml"
    file.write_text(FORM.format(**({"label": "code", "method": "heuristic"} | values)))
    refused = program("profiles", "set", str(file))
    assert (refused.code, refused.out) == (1, "")
    assert message in refused.err
    assert "mine" not in program("profiles", "list").out


def test_a_label_that_resembles_a_known_one_is_a_warning(program: Program) -> None:
    warned = program("profiles", "set", str(write(program, label="coed")))
    assert warned.code == 0
    assert warned.err == "warning: no session has the label coed. Did you mean code?\n"


def test_the_form_with_profile_and_camel_case_is_understood(program: Program) -> None:
    file = program.folder / "theirs.yaml"
    file.write_text(
        "profile:\n  id: theirs\n  name: Theirs\n  matchLabels: [code]\n  criteria:\n"
        "    - {id: tool_count, weight: 2}\n  thresholds: {toolCountWorst: 20}\n"
        "  qualityRiskFraction: 0.3\n"
    )
    assert program("profiles", "set", str(file)).code == 0
    shown = yaml.safe_load(program("profiles", "list", "theirs").out)
    assert (shown["version"], shown["method"], shown["match_labels"]) == (1, "heuristic", ["code"])
    assert shown["thresholds"]["tool_count_worst"] == 20
    assert shown["quality_risk_fraction"] == 0.3
    assert program("profiles", "switch", "theirs", "off").code == 0
    assert yaml.safe_load(program("profiles", "list", "theirs").out)["enabled"] is False
    assert program("profiles", "switch", "theirs", "on").out.startswith("theirs is on (")


def test_changes_of_profiles_make_the_dates_they_concern_due(three_days: Program) -> None:
    """Otherwise sessions would keep a best match that was switched off."""
    three_days("build")
    assert three_days("build").out == "build: nothing new\n"

    def build_after(*arguments: str) -> int:
        assert three_days("profiles", *arguments).code == 0
        return len(three_days("build").table())

    def best_match() -> set[str]:
        ran = three_days("scorecards", "list", "--from", "2026-01-01", "--format", "json")
        return {row["profile_id"] for row in ran.items() if row["is_best_match"]}

    assert build_after("set", str(write(three_days, label="general"))) == 3
    assert best_match() == {"mine"}
    assert build_after("switch", "mine", "off") == 3
    assert best_match() == {"general-performance"}
    assert build_after("switch", "mine", "on") == 3
    assert best_match() == {"mine"}
    # Only labels that no session has are concerned.
    assert build_after("switch", "incident-llm", "off") == 0
    (three_days.folder / "data/profiles/mine.yaml").unlink()
    assert len(three_days("build").table()) == 3
    assert best_match() == {"general-performance"}
    assert three_days("build").out == "build: nothing new\n"


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


def test_a_profile_without_a_file_cannot_be_switched(program: Program) -> None:
    unknown = program("profiles", "switch", "unknown", "off")
    assert (unknown.code, "There is no file of a profile unknown" in unknown.err) == (1, True)


def test_a_switch_that_the_version_rules_refuse_is_an_error(program: Program) -> None:
    program("profiles", "set", str(write(program)))
    path = program.folder / "data" / "profiles" / "mine.yaml"
    path.write_text(PROFILE.format(version=1, weight=2, label="code"))  # needs version 2
    refused = program("profiles", "switch", "mine", "off")
    assert refused.code == 1
    assert "mine stays as it is" in refused.err
    assert "set it to 2" in refused.err


def test_an_invalid_file_is_a_warning(program: Program) -> None:
    folder = program.folder / "data" / "profiles"
    folder.mkdir(parents=True)
    (folder / "bad.yaml").write_text("id: [")
    listed = program("profiles", "list")

    assert listed.code == 0
    assert "bad.yaml is not YAML" in listed.err
