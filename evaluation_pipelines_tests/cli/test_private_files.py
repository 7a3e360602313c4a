"""What the program writes is private; a group can be given the figures, and never the texts."""

import grp
import os
from pathlib import Path

import pytest

from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.world import claude, line, session


def modes(folder: Path) -> dict[str, str]:
    """Return the mode of everything that the program made, by path."""
    return {
        path.relative_to(folder).as_posix(): oct(path.stat().st_mode & 0o777)
        for path in folder.rglob("*")
        if "landing" not in path.parts and not path.is_symlink()
    }


def land(program: Program) -> None:
    prompt = line(claude("user_prompt", 0, session__id="s1", prompt="a secret"))
    program.land("logs.jsonl", session("s1") + prompt + b"not telemetry\n")


def run_all(program: Program) -> None:
    land(program)
    for command in (["ingest"], ["build"], ["publish"]):
        assert program(*command).code == 0, command


def test_folders_and_files_are_private_under_any_umask(program: Program) -> None:
    before = os.umask(0o022)
    try:
        run_all(program)
    finally:
        os.umask(before)
    found = modes(program.folder / "data")
    assert {path for path, mode in found.items() if mode[-2:] != "00"} == set()
    kinds = {path.partition("/")[0] for path in found}
    assert {"lake", "ledger.db", "analytics_files", "reports"} <= kinds


def test_the_landing_folder_stays_as_its_owner_made_it(program: Program) -> None:
    land(program)
    landing = (program.folder / "data") / "landing"
    landing.chmod(0o777)
    assert program("ingest").code == 0
    assert oct(landing.stat().st_mode & 0o777) == "0o777"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file to any group")
def test_a_group_reads_figures_database_and_reports_and_no_texts(program: Program) -> None:
    group = grp.getgrall()[-1].gr_name
    program.set("EVAL_SHARED_GROUP", group)
    run_all(program)
    readable = {path for path, mode in modes(program.folder / "data").items() if mode[-2] in "4567"}
    tables = {path.split("/")[1] for path in readable if path.startswith("lake/")}
    assert {"agent_events_landed", "agent_sessions", "session_performance"} <= tables
    assert tables.isdisjoint({"event_texts_landed", "quarantine", "scorecards", "tool_reports"})
    assert {path.partition("/")[0] for path in readable} == {"lake", "analytics_files", "reports"}


def test_an_unknown_group_is_an_error_that_names_the_setting(program: Program) -> None:
    program.set("EVAL_SHARED_GROUP", "no-such-group")
    land(program)
    result = program("ingest")
    assert result.code == 1
    assert "EVAL_SHARED_GROUP: there is no group no-such-group" in result.err


@pytest.mark.parametrize(
    "planted", ["lake/_tmp", "ledger.db.locks", "analytics_files", "ledger.db"]
)
def test_a_planted_link_is_not_followed(program: Program, tmp_path: Path, planted: str) -> None:
    land(program)
    theirs = foreign_files(tmp_path)
    link = (program.folder / "data") / planted
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(theirs[0].parent)
    results = [program(command) for command in ("ingest", "build", "publish")]
    assert any(result.code == 1 for result in results)
    assert any(f"data/{planted} is a symbolic link" in result.err for result in results)
    assert sorted(theirs[0].parent.iterdir()) == theirs


def foreign_files(tmp_path: Path) -> list[Path]:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    theirs = [folder / f"theirs.{ending}" for ending in ("duckdb", "lock", "parquet", "txt")]
    for path in theirs:
        path.write_bytes(b"theirs")
        os.utime(path, (0, 0))
    return theirs


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("DATA_DIR", "s3://bucket/lake"),
        ("ANALYTICS_PATH", "s3:/bucket/lake"),
        ("PROFILES_DIR", "file:///srv/lake"),
    ],
)
def test_a_url_for_a_folder_is_refused(program: Program, name: str, url: str) -> None:
    program.set(f"EVAL_{name}", url)
    result = program("ingest")
    assert result.code != 0
    assert f"EVAL_{name}" in result.err
    assert "is a URL. It must be a path of this machine" in result.err
    assert not list(Path.cwd().glob("s3:*"))
