"""Every command, query and program in the documents runs, and prints what the document says."""

from pathlib import Path

import pytest

from evaluation_pipelines_tests.docs.documents import blocks, documents
from evaluation_pipelines_tests.docs.playing import refreshed

RUNNING = [
    path
    for path in documents()
    if any(block.is_run for block in blocks(path.read_text(encoding="utf-8")))
]


@pytest.mark.parametrize("document", RUNNING, ids=lambda path: path.name)
def test_a_document_shows_what_its_blocks_print(document: Path, tmp_path: Path) -> None:
    # Mend it with: .venv/bin/python -m evaluation_pipelines_tests.docs.refresh
    assert document.read_text(encoding="utf-8") == refreshed(document, tmp_path)
