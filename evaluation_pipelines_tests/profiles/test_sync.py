"""Files of judge profiles, and their registration."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from evaluation_pipelines.profiles.domain.profile import ProfileError, criterion_warnings
from evaluation_pipelines.profiles.domain.registry import ProfileRefusedError
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.profiles.sync import (
    concerned_labels,
    files_fingerprint,
    keep_profile,
    read_profile,
    read_profiles,
    set_definition,
    switch_profile,
    sync_profiles,
)
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.scorecards.domain.criteria import unknown_criteria
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines_tests.scorecards.calls_profile import (
    DAY,
    build,
    cards,
    profile_file,
    work,
)
from evaluation_pipelines_tests.workplace import NOW, Workplace
from evaluation_pipelines_tests.world import session
from evaluation_pipelines_tests.world.built_before import build_from
from evaluation_pipelines_tests.world.lake_files import root_of
from evaluation_pipelines_tests.world.scorecards import profile, registry

A = profile(id="a", match_labels=["code"])
B = profile(id="b", match_labels=["code"])
EVERY = profile(id="every", match_labels=["*"])


def test_a_date_whose_sessions_are_damaged_is_due_with_a_new_profile(workplace: Workplace) -> None:
    build_from(workplace, session("a"))
    (part,) = workplace.lake.parts(AGENT_SESSIONS)
    (root_of(workplace.lake) / part.path).unlink()
    text = PROFILE.format(version=1).replace("[code]", "['*']")
    write_profile(workplace.settings.profiles_dir, "mine.yaml", text)
    sync_profiles(workplace.stores, NOW)
    newest = ProfileStore(workplace.ledger).registry().newest()
    assert "mine" in {registered.profile.id for registered in newest}
    due = [queued_date.session_date for queued_date in RebuildQueue(workplace.ledger).pending(NOW)]
    assert due == [date(2026, 6, 1)]


@pytest.mark.parametrize(
    ("before", "after", "labels"),
    [
        ([A], [A], set()),
        ([A], [], {"code"}),
        ([A], [A, B], {"code"}),
        ([A], [A, EVERY], {"code", "*"}),
        ([A], [A.model_copy(update={"match_labels": ["ops"]})], {"code", "ops"}),
        ([A], [A.model_copy(update={"enabled": False})], {"code"}),
        # A new version is for sessions that end from now on ...
        ([A], [A, A.model_copy(update={"version": 2})], set()),
        # ... unless it decides which of two profiles is the best match ...
        ([A, B], [A, B, B.model_copy(update={"version": 2})], {"code"}),
        # ... or moves the limit of quality risk.
        ([A], [A.model_copy(update={"quality_risk_fraction": 0.9})], {"code"}),
    ],
)
def test_labels_whose_sessions_are_scored_otherwise(
    before: list[object], after: list[object], labels: set[str]
) -> None:
    assert concerned_labels(registry(*before), registry(*after)) == labels  # type: ignore[arg-type]


PROFILE = """\
id: mine
version: {version}
name: Mine
match_labels: [code]
method: heuristic
criteria:
  - id: tool_count
"""


def write_profile(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


def test_the_fingerprint_changes_with_any_file_also_one_that_cannot_be_read(tmp_path: Path) -> None:
    found = [files_fingerprint(tmp_path)]
    path = write_profile(tmp_path, "mine.yaml", PROFILE.format(version=1))
    found.append(files_fingerprint(tmp_path))
    path.unlink()
    path.symlink_to(tmp_path / "nowhere")
    found.append(files_fingerprint(tmp_path))
    assert len(set(found)) == 3


def test_shipped_profiles_are_valid(tmp_path: Path) -> None:
    files = read_profiles(tmp_path / "none")

    assert files.faults == ()
    methods = {profile.id: profile.method for _, profile in files.profiles}
    assert methods == {
        "code-hybrid": "hybrid",
        "default": "hybrid",
        "efficiency-simple": "heuristic",
        "general-performance": "heuristic",
        "incident-llm": "llm",
    }
    for path, shipped in files.profiles:
        assert path.stem == shipped.id
        assert unknown_criteria(shipped) == []


def test_profiles_in_the_users_folder_are_added_to_the_shipped_ones_or_replace_them(
    tmp_path: Path,
) -> None:
    write_profile(tmp_path, "b.yaml", PROFILE.format(version=2))
    write_profile(tmp_path, "a.yml", PROFILE.format(version=1))
    write_profile(tmp_path, ".hidden.yaml", "no")
    files = read_profiles(tmp_path)
    mine = [(path.name, found.version) for path, found in files.profiles if found.id == "mine"]
    assert mine == [("a.yml", 1), ("b.yaml", 2)]
    assert len(files.profiles) == 2 + 5
    custom = PROFILE.format(version=2).replace("id: mine", "id: code-hybrid", 1)
    write_profile(tmp_path, "code.yaml", custom)
    profiles = [found for _, found in read_profiles(tmp_path).profiles if found.id == "code-hybrid"]
    assert [(found.version, found.name) for found in profiles] == [(2, "Mine")]


def test_an_invalid_file_is_reported_and_the_others_are_used(tmp_path: Path) -> None:
    write_profile(tmp_path, "good.yaml", PROFILE.format(version=1))
    write_profile(tmp_path, "twice.yaml", PROFILE.format(version=1))
    write_profile(tmp_path, "cut.yaml", "id: [")
    write_profile(tmp_path, "list.yaml", "- 1")
    files = read_profiles(tmp_path)

    assert [judge_profile.id for _, judge_profile in files.profiles].count("mine") == 1
    faults = "\n".join(files.faults)
    assert "cut.yaml is not YAML" in faults
    assert "list.yaml: a profile must be a mapping" in faults
    assert "twice.yaml: mine version 1 is also in" in faults
    assert "good.yaml" in faults
    assert len(files.faults) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("!!python/object/apply:os.system ['true']", "is not YAML"),
        ("a: &a [1]\nb: *a", "aliases"),
        ("\x00", "is not YAML"),
        ("[" * 5000, "is not YAML"),
        ("id: 2026-99-99", "is not"),
        ("x" * 1_000_001, "is larger than 1000000 bytes"),
    ],
)
def test_a_hostile_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = write_profile(tmp_path, "p.yaml", text)

    with pytest.raises(ProfileError, match=message):
        read_profile(path)


def test_a_profile_file_is_copied_unchanged(tmp_path: Path) -> None:
    text = f"# why: because\n{PROFILE.format(version=1)}"
    source = write_profile(tmp_path / "elsewhere", "draft.yaml", text)
    folder = tmp_path / "profiles"
    target = keep_profile(folder, read_profile(source), source)

    assert target == folder / "mine.yaml"
    assert target.read_text() == text
    assert [path.name for path in folder.iterdir()] == ["mine.yaml"]


def test_a_file_in_the_folder_is_not_copied(tmp_path: Path) -> None:
    source = write_profile(tmp_path, "named-by-me.yaml", PROFILE.format(version=1))

    assert keep_profile(tmp_path, read_profile(source), source) == source
    assert [path.name for path in tmp_path.iterdir()] == ["named-by-me.yaml"]


FLOW = "name: Mine, match_labels: [code], method: heuristic, criteria: [{id: tool_count}]"
BLOCK = FLOW.replace(", ", "\n")
CAMEL = "  name: Mine\n  matchLabels: [code]\n  criteria: [{id: tool_count}]\n"


@pytest.mark.parametrize(
    ("text", "part", "when_off"),
    [
        (
            f"# why\nid: mine # é\nversion: 1\nrubric: |\n  enabled: true\n{BLOCK}",
            *("id: mine", "enabled: false\nid: mine"),
        ),
        (
            f"profile:\n  id: mine\n{CAMEL}",
            *("  id: mine", "  enabled: false\n  id: mine"),
        ),
        (
            f"profile:\n  id: mine\n{CAMEL}".replace("\n", "\r\n"),
            *("  id: mine", "  enabled: false\r\n  id: mine"),
        ),
        (
            f"profile:\n  id: mine\n  enabled: yes # for now\n{CAMEL}...\n",
            *("yes", "false"),
        ),
        (f"{{id: mine, version: 1, {FLOW}}}", "id: mine", "enabled: false, id: mine"),
        (
            f'\ufeff{{"profile": {{"id": "mine", {FLOW}}}}}\n',
            *('"id"', '"enabled": false, "id"'),
        ),
    ],
)
def test_a_profile_is_switched_in_every_form_and_the_rest_of_its_file_stays(
    tmp_path: Path, text: str, part: str, when_off: str
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(text.encode())

    assert switch_profile(tmp_path, "mine", enabled=False) == path
    assert path.read_bytes().decode() == text.replace(part, when_off, 1)
    assert not read_profile(path).enabled
    switch_profile(tmp_path, "mine", enabled=True)
    assert read_profile(path).enabled
    assert [path.name for path in tmp_path.iterdir()] == ["mine.yaml"]


def test_a_file_that_cannot_be_switched_stays_alone_and_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    content = f"{{id: mine, version: 1, {FLOW}}}".encode("utf-16")
    path.write_bytes(content)

    with pytest.raises(ProfileError, match=r"mine\.yaml: set enabled: false there by hand"):
        switch_profile(tmp_path, "mine", enabled=False)
    assert path.read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["mine.yaml"]


def test_a_file_that_has_the_name_of_a_shipped_profile_is_not_overwritten(tmp_path: Path) -> None:
    path = write_profile(tmp_path, "code-hybrid.yaml", "id: code-hybrid\nverison: 9\n")

    with pytest.raises(ProfileError, match="is not a valid file of code-hybrid"):
        switch_profile(tmp_path, "code-hybrid", enabled=False)
    assert path.read_text() == "id: code-hybrid\nverison: 9\n"


def test_a_disk_without_space_leaves_no_file_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Path) -> Path:
        raise OSError(28, "No space left on device")

    path = write_profile(tmp_path, "mine.yaml", PROFILE.format(version=1))
    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space"):
        switch_profile(tmp_path, "mine", enabled=False)
    assert path.read_text() == PROFILE.format(version=1)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.yaml"]


LATER = NOW + timedelta(minutes=1)
SENT: dict[str, Any] = {
    "id": "mine",
    "name": "Mine",
    "matchLabels": ["simple"],
    "criteria": [{"id": "tool_count"}],
    "thresholds": {"toolCountWorst": 4},
}


def test_method_version_and_labels_have_defaults(workplace: Workplace) -> None:
    sent = {name: SENT[name] for name in ("id", "name", "criteria")}
    found = set_definition(workplace.stores, sent, NOW)
    assert (found.profile.version, found.profile.method) == (1, "heuristic")
    assert (found.profile.match_labels, found.origin) == (("mine",), "api")


def test_other_content_gets_the_next_version_and_a_retry_gets_none(workplace: Workplace) -> None:
    set_definition(workplace.stores, SENT, NOW)
    assert set_definition(workplace.stores, SENT, LATER).registered_at == NOW
    renamed = set_definition(workplace.stores, {**SENT, "name": "New name"}, LATER)
    assert (renamed.profile.version, renamed.profile.name) == (1, "New name")
    other = {**SENT, "criteria": [{"id": "response_time"}]}
    assert set_definition(workplace.stores, other, LATER).profile.version == 2
    with pytest.raises(ProfileRefusedError, match="registered with other content"):
        set_definition(workplace.stores, {**SENT, "version": 2}, LATER)


def test_builds_score_with_it_and_the_dates_that_it_concerns_are_due(workplace: Workplace) -> None:
    workplace.land("logs.jsonl", work())
    build(workplace)
    set_definition(workplace.stores, SENT, NOW, rescore_history=True)
    assert [
        queued_date.session_date for queued_date in RebuildQueue(workplace.ledger).pending(NOW)
    ] == [DAY]
    build(workplace, LATER)
    (card,) = cards(workplace, "mine")
    # One call of at most four: 1 - 1/4.
    assert card["overall_score"] == pytest.approx(75)


def test_it_stays_on_though_no_file_has_it(workplace: Workplace) -> None:
    set_definition(workplace.stores, SENT, NOW)
    assert sync_profiles(workplace.stores, LATER).registry.find("mine").profile.enabled


SHIPPED_ID = "efficiency-simple"
CALLS: dict[str, Any] = {
    "id": "calls",
    "name": "Few calls",
    "criteria": [{"id": "tool_count"}],
    "thresholds": {"toolCountWorst": 10},
}
"""What ``profile_file`` writes, without labels."""


def stored(workplace: Workplace, profile_id: str = SHIPPED_ID) -> tuple[int, str, str]:
    found = sync_profiles(workplace.stores, LATER)
    assert found.faults == ()
    newest = found.registry.find(profile_id)
    return newest.profile.version, newest.origin, newest.profile.name


def test_a_shipped_profile_gives_way_to_a_call(workplace: Workplace) -> None:
    default = sync_profiles(workplace.stores, NOW).registry.find(SHIPPED_ID)
    assert default.origin == "shipped"
    following = default.profile.version + 1
    for sent in (SENT, {**SENT, "version": 1}):  # a retry, also with a version, changes nothing
        found = set_definition(workplace.stores, {**sent, "id": SHIPPED_ID}, NOW)
        assert (found.profile.version, found.profile.name) == (following, "Mine")
        assert stored(workplace) == (following, "api", "Mine")
    other = {**SENT, "id": SHIPPED_ID, "criteria": [{"id": "response_time"}]}
    with pytest.raises(ProfileRefusedError, match="registered with other content"):
        set_definition(workplace.stores, {**other, "version": following}, LATER)


def test_a_shipped_profile_gives_way_to_a_file_until_that_is_removed(workplace: Workplace) -> None:
    version, _, name = stored(workplace)
    path = profile_file(workplace)
    path.write_text(path.read_text().replace("id: calls", f"id: {SHIPPED_ID}"))
    for _ in range(2):
        assert stored(workplace) == (version + 1, "file", "Few calls")
    path.write_text(path.read_text().replace("worst: 10", "worst: 9"))
    assert stored(workplace) == (version + 2, "file", "Few calls")
    path.unlink()
    for _ in range(2):
        assert stored(workplace) == (version + 3, "shipped", name)


def test_a_call_goes_on_where_a_file_ends(workplace: Workplace) -> None:
    profile_file(workplace)
    assert stored(workplace, "calls") == (1, "file", "Few calls")
    # The file is read again and again: a call that changes labels alone is a version, too.
    same = set_definition(workplace.stores, {**CALLS, "matchLabels": ["ops"]}, NOW)
    assert same.profile.version == 2
    found = set_definition(workplace.stores, {**SENT, "id": "calls"}, NOW)
    assert found.profile.version == 3
    assert stored(workplace, "calls") == (3, "api", "Mine")


def test_an_unknown_criterion_is_kept_with_a_warning(workplace: Workplace) -> None:
    sent = {**SENT, "criteria": [{"id": "tool_cuont"}, {"id": "tool_count"}]}
    found = set_definition(workplace.stores, sent, NOW)
    (warning,) = criterion_warnings(found.profile)
    assert "tool_cuont is unknown and scores the midpoint. Did you mean tool_count?" in warning
