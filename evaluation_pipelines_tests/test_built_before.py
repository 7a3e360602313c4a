"""Stores that are copied are like those that were built, and go on like them."""

from pathlib import Path

from evaluation_pipelines_tests.judged import fill, session_with_texts
from evaluation_pipelines_tests.lake_files import root_of
from evaluation_pipelines_tests.workplace import Workplace, open_workplace


def test_a_copy_is_what_was_built_and_reads_only_what_is_new(tmp_path: Path) -> None:
    first = session_with_texts("s1", text="of this test alone")
    with open_workplace(tmp_path / "built") as built, open_workplace(tmp_path / "copy") as copy:
        for each in (built, copy):
            fill(each, first)
        parts = [contents(each) for each in (built, copy)]
        assert parts[0] == parts[1] != {}

        fill(built, session_with_texts("s2", 60))
        with open_workplace(tmp_path / "later") as later:  # what another test appended is not there
            fill(later, first)
            assert later.sessions()["session_id"].to_list() == ["s1"]
            assert later.ingest().counts.lines == 0
        fill(copy, session_with_texts("s3", 60))
        assert copy.sessions()["session_id"].to_list() == ["s1", "s3"]


def contents(workplace: Workplace) -> dict[str, bytes]:
    """Path -> content of all files of the lake."""
    root = root_of(workplace.lake)
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*.parquet")}
