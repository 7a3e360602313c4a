"""Commits of sessions in configured repositories, night after night."""

import json
import os
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from evaluation_pipelines.outcomes.from_git import read_git
from evaluation_pipelines.schemas import SESSION_OUTCOMES
from evaluation_pipelines_tests.outcomes.repositories import EMAIL, START, Repository, lines
from evaluation_pipelines_tests.workplace import Workplace, open_workplace
from evaluation_pipelines_tests.world import claude, line

JUNE_1 = date(2026, 6, 1)
_HOUR = 1 / 24
_AFTER_2_DAYS = {"merged": 1.0, "reverted": 0.0, "survival_1d": 1.0}


def outcomes(workplace: Workplace, *kinds: str) -> list[tuple[Any, ...]]:
    rows = workplace.lake.read(SESSION_OUTCOMES, [JUNE_1]).filter(source="git")
    names = ("session_id", "kind", "value", "inferred")
    return [row for row in rows.select(names).iter_rows() if not kinds or row[1] in kinds]


def work(
    name: str, commit: str | None = None, branch: str = "main", until_s: float = 7200
) -> bytes:
    details = {"full_command": "git commit -m x", "git_commit_id": commit}
    bash = {"tool_name": "Bash", "success": "true"}
    records = [
        claude("user_prompt", 0, session__id=name, user__email=EMAIL.title()),
        claude("tool_result", 1, session__id=name, tool_parameters=json.dumps(details), **bash),
        claude("tool_result", until_s, session__id=name, **bash),
    ]
    where = {"vcs__repository__name": "acme/shop", "vcs__ref__head__name": branch}
    return line(*records, **where)


@pytest.fixture
def shop(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "shop")
    made.commit(-5, "first", readme=lines("hello"))
    return made


@pytest.fixture
def workplace(tmp_path: Path) -> Iterator[Workplace]:
    repositories = f"{tmp_path / 'shop'},{tmp_path / 'copy'}"
    with open_workplace(tmp_path / "data", git_repositories=repositories) as opened:
        yield opened


def night(workplace: Workplace, day: float) -> list[str]:
    workplace.ingest()
    workplace.build()
    return read_git(workplace.stores, START + timedelta(days=day)).refused


def test_a_commit_is_followed_until_its_lines_were_counted(
    workplace: Workplace, shop: Repository
) -> None:
    shop.git("checkout", "-q", "-b", "feature")
    commit = shop.commit(_HOUR, a=lines("a", "b"))
    shop.git("checkout", "-q", "main")
    workplace.land("a.jsonl", work("one", commit[:10]))

    # A repository that is missing is named, the other counts.
    assert "copy" in night(workplace, 1)[0]
    assert outcomes(workplace) == [("one", "merged", 0.0, False)]
    shop.git("merge", "-q", "--no-ff", "-m", "merge", "feature", day=2)
    night(workplace, 2.5)
    assert outcomes(workplace) == [("one", "merged", 1.0, False), ("one", "reverted", 0.0, False)]
    shop.commit(3.5, a=lines("a"))
    night(workplace, 10)
    assert outcomes(workplace, "survival_1d", "survival_7d") == [
        ("one", "survival_1d", 1.0, False),
        ("one", "survival_7d", 0.5, False),
    ]
    # History is rewritten, so its other outcomes are unknown again.
    shop.git("reset", "-q", "--hard", "HEAD~2")
    night(workplace, 11)
    assert outcomes(workplace, "merged", "reverted", "survival_1d") == [
        ("one", "merged", 0.0, False),
        ("one", "reverted", None, False),
        ("one", "survival_1d", None, False),
    ]


def test_outcomes_stay_in_a_night_when_their_repository_cannot_be_read(
    workplace: Workplace, shop: Repository, tmp_path: Path
) -> None:
    Repository(tmp_path / "copy").commit(-5, "other", x=lines("x"))
    workplace.land("a.jsonl", work("one", shop.commit(_HOUR, a=lines("a", "b"))))
    expected = [("one", kind, value, False) for kind, value in _AFTER_2_DAYS.items()]
    assert night(workplace, 2) == []
    assert outcomes(workplace) == expected

    shop.git("config", "core.pager", "less")
    assert "core.pager" in night(workplace, 3)[0]
    assert outcomes(workplace) == expected


def test_answers_that_need_no_other_commit_are_kept_when_one_cannot_be_read(
    workplace: Workplace, shop: Repository
) -> None:
    whole = shop.commit(_HOUR, a=lines("a", "b"))
    workplace.land("a.jsonl", work("one", whole))
    night(workplace, 2)
    broken = shop.commit(1.5 * _HOUR, b=lines("b"))
    blob = shop.git("rev-parse", f"{broken}:b")
    workplace.land("b.jsonl", work("two", broken) + work("three", whole))
    (shop.path / ".git/objects" / blob[:2] / blob[2:]).unlink()

    refused = night(workplace, 2)
    assert [reason for reason in refused if "shop" in reason] == [
        f"{shop.path}: git log failed with code 128."
    ]
    # The broken commit may have reverted another one by its content.
    assert outcomes(workplace) == [
        ("one", "merged", 1.0, False),
        ("one", "reverted", None, False),
        ("one", "survival_1d", 1.0, False),
        ("three", "merged", 1.0, False),
        ("three", "survival_1d", 1.0, False),
    ]


def test_commits_without_answers_are_asked_about_first(
    workplace: Workplace, shop: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = sorted(shop.commit(_HOUR, **{name: lines(name)}) for name in "abc")
    first, *_, last = commits
    workplace.land("a.jsonl", work("one", first))
    night(workplace, 2)
    workplace.land("b.jsonl", work("two", last))

    asked, logged = tmp_path / "asked", tmp_path / "bin/git"
    logged.parent.mkdir()
    logged.write_text(f'#!/bin/sh\necho "$@" >> {asked}\nexec {which("git")} "$@"\n')
    logged.chmod(0o755)
    monkeypatch.setenv("PATH", f"{logged.parent}:{os.environ['PATH']}")
    night(workplace, 9)
    files = [command for command in asked.read_text().splitlines() if " diff-tree " in command]
    assert [file.split()[-2] for file in files] == [last, first]


def test_repositories_that_contradict_say_nothing_unless_the_session_names_one(
    workplace: Workplace, shop: Repository, tmp_path: Path
) -> None:
    shop.git("checkout", "-q", "-b", "feature")
    commit = shop.commit(_HOUR, a=lines("a", "b"))
    shop.git("clone", "-q", "--mirror", str(shop.path), str(tmp_path / "copy"))
    mirror = Repository.__new__(Repository)
    mirror.path = tmp_path / "copy"
    mirror.git("config", "--unset", "remote.origin.url")
    mirror.git("update-ref", "refs/heads/main", commit)
    mirror.git("symbolic-ref", "HEAD", "refs/heads/main")
    nameless = work("two", commit).replace(b"acme/shop", b"acme/other")
    workplace.land("a.jsonl", work("one", commit) + nameless)

    night(workplace, 1)
    assert outcomes(workplace, "merged") == [("one", "merged", 0.0, False)]


@pytest.mark.parametrize(
    ("commits", "sessions", "branch", "expected"),
    [
        ((0.01,), ("one",), "main", [("one", "commit", 1.0, True), ("one", "merged", 1.0, True)]),
        # Two candidates, none in the time, another branch, or two sessions for one commit.
        ((0.01, 0.02), ("one",), "main", []),
        ((0.5,), ("one",), "main", []),
        ((0.01,), ("one",), "gone", []),
        ((0.01,), ("one", "two"), "main", []),
    ],
)
def test_a_commit_is_inferred_only_if_one_remains(
    workplace: Workplace,
    shop: Repository,
    commits: tuple[float, ...],
    sessions: tuple[str, ...],
    branch: str,
    expected: list[tuple[Any, ...]],
) -> None:
    for day in commits:
        shop.commit(day, a=f"{day}\n")
    workplace.land("a.jsonl", b"".join(work(name, branch=branch) for name in sessions))
    night(workplace, 1)
    assert outcomes(workplace, "commit", "merged") == expected
