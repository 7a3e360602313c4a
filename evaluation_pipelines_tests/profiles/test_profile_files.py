"""Profile files: shipped profiles, the user's folder, and invalid files."""

from pathlib import Path

import pytest

from evaluation_pipelines.profiles.domain.profile import ProfileError
from evaluation_pipelines.profiles.sync import (
    SHIPPED,
    files_fingerprint,
    keep_profile,
    read_profile,
    read_profiles,
    switch_profile,
)
from evaluation_pipelines.scorecards.domain.criteria import unknown_criteria

PROFILE = """\
id: mine
version: {version}
name: Mine
match_labels: [code]
method: heuristic
criteria:
  - id: tool_count
"""


def write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


def test_the_fingerprint_changes_with_any_file_also_one_that_cannot_be_read(tmp_path: Path) -> None:
    found = [files_fingerprint(tmp_path)]
    path = write(tmp_path, "mine.yaml", PROFILE.format(version=1))
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
    for path, profile in files.profiles:
        assert path.stem == profile.id
        assert unknown_criteria(profile) == []


def test_profiles_in_the_users_folder_are_added_to_the_shipped_ones(tmp_path: Path) -> None:
    write(tmp_path, "b.yaml", PROFILE.format(version=2))
    write(tmp_path, "a.yml", PROFILE.format(version=1))
    write(tmp_path, ".hidden.yaml", "no")
    files = read_profiles(tmp_path)

    mine = [(path.name, each.version) for path, each in files.profiles if each.id == "mine"]
    assert mine == [("a.yml", 1), ("b.yaml", 2)]
    assert len(files.profiles) == 2 + 5


def test_a_profile_with_the_id_of_a_shipped_one_replaces_it(tmp_path: Path) -> None:
    custom = PROFILE.format(version=2).replace("id: mine", "id: code-hybrid", 1)
    write(tmp_path, "code.yaml", custom)
    found = [each for _, each in read_profiles(tmp_path).profiles if each.id == "code-hybrid"]

    assert [(each.version, each.name) for each in found] == [(2, "Mine")]


def test_an_invalid_file_is_reported_and_the_others_are_used(tmp_path: Path) -> None:
    write(tmp_path, "good.yaml", PROFILE.format(version=1))
    write(tmp_path, "twice.yaml", PROFILE.format(version=1))
    write(tmp_path, "cut.yaml", "id: [")
    write(tmp_path, "list.yaml", "- 1")
    files = read_profiles(tmp_path)

    assert [each.id for _, each in files.profiles].count("mine") == 1
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
    path = write(tmp_path, "p.yaml", text)

    with pytest.raises(ProfileError, match=message):
        read_profile(path)


def test_a_profile_file_is_copied_unchanged(tmp_path: Path) -> None:
    text = f"# why: because\n{PROFILE.format(version=1)}"
    source = write(tmp_path / "elsewhere", "draft.yaml", text)
    folder = tmp_path / "profiles"
    target = keep_profile(folder, read_profile(source), source)

    assert target == folder / "mine.yaml"
    assert target.read_text() == text
    assert [each.name for each in folder.iterdir()] == ["mine.yaml"]


def test_a_file_in_the_folder_is_not_copied(tmp_path: Path) -> None:
    source = write(tmp_path, "named-by-me.yaml", PROFILE.format(version=1))

    assert keep_profile(tmp_path, read_profile(source), source) == source
    assert [each.name for each in tmp_path.iterdir()] == ["named-by-me.yaml"]


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
    assert [each.name for each in tmp_path.iterdir()] == ["mine.yaml"]


def test_a_file_that_cannot_be_switched_stays_alone_and_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    content = f"{{id: mine, version: 1, {FLOW}}}".encode("utf-16")
    path.write_bytes(content)

    with pytest.raises(ProfileError, match=r"mine\.yaml: set enabled: false there by hand"):
        switch_profile(tmp_path, "mine", enabled=False)
    assert path.read_bytes() == content
    assert [each.name for each in tmp_path.iterdir()] == ["mine.yaml"]


def test_a_file_that_has_the_name_of_a_shipped_profile_is_not_overwritten(tmp_path: Path) -> None:
    path = write(tmp_path, "code-hybrid.yaml", "id: code-hybrid\nverison: 9\n")

    with pytest.raises(ProfileError, match="is not a valid file of code-hybrid"):
        switch_profile(tmp_path, "code-hybrid", enabled=False)
    assert path.read_text() == "id: code-hybrid\nverison: 9\n"


def test_a_disk_without_space_leaves_no_file_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Path) -> Path:
        raise OSError(28, "No space left on device")

    path = write(tmp_path, "mine.yaml", PROFILE.format(version=1))
    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space"):
        switch_profile(tmp_path, "mine", enabled=False)
    assert path.read_text() == PROFILE.format(version=1)
    assert [each.name for each in tmp_path.iterdir()] == ["mine.yaml"]


def test_the_shipped_folder_is_part_of_the_package() -> None:
    assert SHIPPED.parents[1].name == "evaluation_pipelines"
