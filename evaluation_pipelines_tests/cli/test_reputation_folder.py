"""``reputation`` with the engine in the data folder, where it is unless a setting names another."""

import re

from evaluation_pipelines_tests.program import Program


def test_without_tables_reading_is_an_error_and_writes_nothing(
    program: Program,
) -> None:
    for arguments in (["--tables"], ["scout"], ["--identities"], []):
        ran = program("reputation", "list", *arguments)
        assert (ran.code, ran.out) == (1, "")
        assert re.search(r"holds no reputation yet|There is no ledger", ran.err)
        assert "Run evaluation-pipelines" in ran.err
    assert list(program.folder.iterdir()) == []


def test_migrations_are_listed_and_applied_once(program: Program) -> None:
    first, second = (
        program("reputation", "update", "--tables"),
        program("reputation", "update", "--tables"),
    )
    assert (first.code, first.err) == (0, "")
    assert first.out.count("\n") == 6
    assert first.out.splitlines()[0].endswith("  0001_create_reputation_events")
    assert second.out == first.out
    status = program("reputation", "list", "--tables")
    assert [row[:2] for row in status.table()[:3]] == [
        ["agent_evaluations", "0"],
        ["reputation_events", "0"],
        ["reputation_scores", "0"],
    ]
    assert (program.folder / "data" / "clickhouse").is_dir()
