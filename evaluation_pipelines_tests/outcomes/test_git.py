"""Outcomes of commits, in repositories whose history is known by hand."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from evaluation_pipelines.outcomes.from_git import Answer, answers_of
from evaluation_pipelines.outcomes.git import GitError
from evaluation_pipelines.outcomes.git import Repository as Opened
from evaluation_pipelines_tests.outcomes.repositories import START, Repository, lines


def _day(days: float) -> datetime:
    return START + timedelta(days=days)


def asked(path: Path, commit_id: str) -> dict[str, Answer]:
    opened = Opened(path, 60)
    history = opened.with_patches(opened.history(_day(-1), _day(60)), _day(-1))
    return dict(answers_of(opened, history, opened.find([commit_id])[commit_id]))


def values(path: Path, commit_id: str) -> dict[str, float]:
    return {kind: answer.value for kind, answer in asked(path, commit_id).items()}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "shop")
    made.commit(0, "first", readme=lines("hello"))
    return made


def test_the_lines_of_a_commit_are_counted_after_1_7_and_30_days(repository: Repository) -> None:
    words = [f"line {number}" for number in range(10)]
    commit = repository.commit(1, a__py=lines(*words))
    repository.commit(1.5, a__py=lines(*words[:8]))  # 8 of 10 live after a day
    repository.commit(5, a__py=lines("new", *words[:5], "other"))  # 5 of 10
    repository.git("mv", "a.py", "b.py")
    repository.commit(9, "renamed")
    repository.commit(20, b__py=lines("new", *words[:2], "other"))  # 2 of 10

    assert asked(repository.path, commit) == {
        "merged": Answer(1.0, _day(1)),
        "reverted": Answer(0.0),
        "survival_1d": Answer(0.8, _day(2), 10),
        "survival_7d": Answer(0.5, _day(8), 10),
        "survival_30d": Answer(0.2, _day(31), 10),
    }


def test_files_without_lines_and_deleted_ones(repository: Repository) -> None:
    image = repository.commit(1, image__png=b"\0\1\2" * 50)
    assert set(asked(repository.path, image)) == {"merged", "reverted"}
    text = repository.commit(2, a__txt=lines("a", "b"), b__txt=lines("c", "d"))
    (repository.path / "a.txt").unlink()
    deletion = repository.commit(2.5, "delete")
    assert values(repository.path, text)["survival_1d"] == 0.5
    assert set(asked(repository.path, deletion)) == {"merged", "reverted"}


def test_a_merge_brings_commits_when_it_is_made(repository: Repository) -> None:
    repository.git("checkout", "-q", "-b", "feature")
    commit = repository.commit(1, a=lines("a", "b"))
    repository.git("checkout", "-q", "main")
    repository.commit(2, other=lines("x"))
    assert asked(repository.path, commit) == {"merged": Answer(0.0)}
    repository.git("merge", "-q", "--no-ff", "-m", "merge", "feature", day=4)
    found = asked(repository.path, commit)
    assert found["merged"] == Answer(1.0, _day(4))
    # A day after the merge, not after the commit.
    assert found["survival_1d"] == Answer(1.0, _day(5), 2)


@pytest.mark.parametrize("commits", [1, 2])
def test_a_squash_is_a_merge(repository: Repository, commits: int) -> None:
    repository.git("checkout", "-q", "-b", "feature")
    commit = repository.commit(1, a=lines("a", "b"))
    if commits == 2:
        repository.commit(1.5, b=lines("c"))
    repository.git("checkout", "-q", "main")
    repository.commit(2, other=lines("x"))
    repository.git("merge", "-q", "--squash", "feature")
    repository.git("commit", "-q", "-m", "feature (#1)", day=3)
    assert asked(repository.path, commit)["merged"] == Answer(1.0, _day(3))


def test_a_squash_and_a_revert_are_unknown_where_a_patch_cannot_be_read(
    repository: Repository,
) -> None:
    repository.git("checkout", "-q", "-b", "feature")
    commit = repository.commit(1, a=lines("a"))
    repository.git("checkout", "-q", "main")
    kept = repository.commit(2, b=lines("b"))
    repository.git("merge", "-q", "--squash", "feature")
    repository.git("commit", "-q", "-m", "feature (#1)", day=3)
    repository.commit(4, c=lines("lost"))
    lost = repository.git("rev-parse", "HEAD:c")
    (repository.path / ".git/objects" / lost[:2] / lost[2:]).unlink()
    assert values(repository.path, commit) == {}
    assert "reverted" not in asked(repository.path, kept)


def test_a_commit_picked_from_the_default_branch_was_merged_by_someone_else(
    repository: Repository,
) -> None:
    first = repository.commit(1, a=lines("a"))
    repository.git("checkout", "-q", "-b", "release", "HEAD~1")
    repository.git("cherry-pick", first, day=3)
    # git keeps the time of the author.
    repository.git("commit", "-q", "--amend", "--no-edit", "--reset-author", day=3)
    picked = repository.git("rev-parse", "HEAD")
    assert values(repository.path, picked) == {"merged": 0.0}
    # The other way round it is a merge.
    fix = repository.commit(4, b=lines("b"))
    repository.git("checkout", "-q", "main")
    repository.git("cherry-pick", fix, day=5)
    assert asked(repository.path, fix)["merged"] == Answer(1.0, _day(5))


def test_reverts_by_message_or_by_content_and_reverts_of_reverts(repository: Repository) -> None:
    commit = repository.commit(1, a=lines("a", "b"))
    repository.git("revert", "--no-edit", commit, day=2)
    assert asked(repository.path, commit)["reverted"] == Answer(1.0, _day(2))
    repository.git("revert", "--no-edit", "HEAD", day=3)
    assert asked(repository.path, commit)["reverted"] == Answer(0.0)
    (repository.path / "a").unlink()
    repository.commit(4, "away with it")
    assert asked(repository.path, commit)["reverted"] == Answer(1.0, _day(4))
    repository.commit(5, "the same again", a=lines("a", "b"))
    assert asked(repository.path, commit)["reverted"] == Answer(0.0)


def test_a_reverted_merge_takes_its_commits_back(repository: Repository) -> None:
    repository.git("checkout", "-q", "-b", "feature")
    commit = repository.commit(1, a=lines("a"))
    repository.commit(1, b=lines("b"))
    repository.git("checkout", "-q", "main")
    repository.git("merge", "-q", "--no-ff", "-m", "merge", "feature", day=2)
    repository.git("revert", "-m", "1", "--no-edit", "HEAD", day=3)
    assert asked(repository.path, commit)["reverted"] == Answer(1.0, _day(3))


def test_a_shallow_clone_knows_only_what_it_has(repository: Repository, tmp_path: Path) -> None:
    old = repository.commit(1, a=lines("a"))
    new = repository.commit(2, b=lines("b"))
    source, clone = f"file://{repository.path}", tmp_path / "clone"
    repository.git("clone", "-q", "--depth", "1", source, str(clone))
    assert values(clone, new) == {"merged": 1.0}
    assert Opened(clone, 60).find([old, new, "0" * 40]) == {new: new}


def test_a_clone_is_known_until_its_last_commit_or_fetch(
    repository: Repository, tmp_path: Path
) -> None:
    commit = repository.commit(1, a=lines("a"))
    repository.commit(2.5, b=lines("b"))
    clone = tmp_path / "clone"
    repository.git("clone", "-q", "--mirror", str(repository.path), str(clone))
    # Seven days have not passed as far as the clone knows.
    assert set(asked(clone, commit)) == {"merged", "reverted", "survival_1d"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("core.fsmonitor", "touch ran"),
        ("diff.x.textconv", "touch ran"),
        ("filter.x.smudge", "touch ran"),
        ("core.sshCommand", "touch ran"),
        ("include.path", "other"),
        ("remote.origin.promisor", "true"),
        ("alias.log", "!touch ran"),
        ("diff.x\u2028y.textconv", "touch ran"),
    ],
)
def test_a_repository_that_would_run_programs_is_refused(
    repository: Repository, name: str, value: str
) -> None:
    repository.git("config", name, value)
    with pytest.raises(GitError, match=f"(?i){name}"):
        Opened(repository.path, 60)


def test_a_folder_that_takes_its_configuration_from_another_is_refused(
    repository: Repository,
) -> None:
    (repository.path / ".git/commondir").write_text("/elsewhere\n")
    with pytest.raises(GitError, match="commondir"):
        Opened(repository.path, 60)


def test_a_program_named_after_the_check_of_the_configuration_does_not_run(
    repository: Repository,
) -> None:
    commit = repository.commit(1, a=lines("a"))
    opened = Opened(repository.path, 60)
    history = opened.history(_day(-1), _day(2))
    repository.git("config", "diff.x.textconv", f"touch {repository.path}/ran; cat")
    (repository.path / ".git/info/attributes").write_text("* diff=x\n")
    assert opened.lines_of(history.commits[commit], commit, opened.touched(commit)) == 1
    assert not (repository.path / "ran").exists()


def test_names_of_files_are_no_patterns(repository: Repository) -> None:
    commit = repository.commit(1, **{":!x": lines("a"), ":(bad)y": lines("b"), "[x]": lines("c")})
    repository.commit(3, b=lines("b"))
    assert asked(repository.path, commit)["survival_1d"] == Answer(1.0, _day(2), 3)


def test_hooks_and_attributes_of_a_repository_run_nothing(repository: Repository) -> None:
    ran = repository.path / "ran"
    hook = repository.path / ".git/hooks/post-index-change"
    hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
    hook.chmod(0o755)
    commit = repository.commit(1, __gitattributes="* diff=x filter=x\n", a=lines("a"))
    ran.unlink(missing_ok=True)
    repository.commit(3, b=lines("b"))
    ran.unlink(missing_ok=True)
    assert values(repository.path, commit)["survival_1d"] == 1.0
    assert not ran.exists()


def test_no_command_takes_longer_than_allowed(repository: Repository) -> None:
    with pytest.raises(GitError, match="took too long"):
        Opened(repository.path, 0)


def test_a_shallow_clone_does_not_say_not_merged(repository: Repository, tmp_path: Path) -> None:
    """The merge lies behind the boundary of the clone."""
    repository.commit(1, a=lines("a"))
    repository.git("checkout", "-q", "-b", "feature")
    commit = repository.commit(1, b=lines("b"))
    repository.git("checkout", "-q", "main")
    repository.git("merge", "-q", "--no-ff", "-m", "merge", "feature", day=2)
    repository.commit(3, c=lines("c"))
    source, clone = f"file://{repository.path}", tmp_path / "clone"
    repository.git("clone", "-q", "--depth", "1", "--no-single-branch", source, str(clone))
    assert values(clone, commit) == {}
