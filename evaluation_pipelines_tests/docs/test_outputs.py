"""Every command, query and program in the documents runs, and prints what the document says."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from evaluation_pipelines_tests.docs import playing
from evaluation_pipelines_tests.docs.documents import blocks, documents
from evaluation_pipelines_tests.docs.pictures import PICTURES, composites_svg
from evaluation_pipelines_tests.docs.playing import refreshed

RUNNING = {
    path: text
    for path in documents()
    for text in [path.read_text(encoding="utf-8")]
    if any(block.is_run for block in blocks(text))
}


def are_up_to_date(data: str, folder: Path) -> None:
    """Compare the documents that run on some data with what their blocks print now."""
    for document, text in RUNNING.items():
        if f"<!-- data: {data}" in text:
            (folder / document.stem).mkdir()
            # Refresh it with: .venv/bin/python -m evaluation_pipelines_tests.docs.refresh
            assert text == refreshed(document, folder / document.stem)


def test_blocks_run_again_if_a_day_has_begun_since_their_data_were_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = tmp_path / "a.md"
    document.write_text("```sh run\necho ran >> ../ran\n```\n", encoding="utf-8")
    days = iter([1, 2, 3, 3])
    monkeypatch.setattr(playing, "midnight", lambda: datetime(2026, 6, next(days), tzinfo=UTC))
    for name, runs in (("crossed", 2), ("within", 1)):
        (tmp_path / name).mkdir()
        refreshed(document, tmp_path / name)
        assert (tmp_path / name / "ran").read_text(encoding="utf-8") == "ran\n" * runs


def test_documents_show_what_their_blocks_print_of_genuine_telemetry(tmp_path: Path) -> None:
    are_up_to_date("genuine", tmp_path)


# One test, since generating takes long and every process would have to do it.
@pytest.mark.slow
def test_documents_and_the_chart_show_what_is_printed_of_generated_telemetry(
    tmp_path: Path,
) -> None:
    are_up_to_date("generated", tmp_path)
    # Refresh it with: .venv/bin/python -m evaluation_pipelines_tests.docs.pictures
    assert (PICTURES / "composites.svg").read_text(encoding="utf-8") == composites_svg()


def test_every_document_with_such_blocks_says_on_which_data_they_run() -> None:
    assert all(
        "<!-- data: genuine, landed -->" in text or "<!-- data: generated, published -->" in text
        for text in RUNNING.values()
    )
