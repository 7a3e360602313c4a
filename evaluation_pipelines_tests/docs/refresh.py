"""Write the outputs of all runnable blocks into the documents.

Run it with ``python -m evaluation_pipelines_tests.docs.refresh``, with names of documents to do
only these.
"""

import sys
import tempfile
from collections.abc import Collection
from pathlib import Path

from evaluation_pipelines_tests.docs.documents import documents
from evaluation_pipelines_tests.docs.playing import refreshed


def main(names: Collection[str]) -> None:
    """Refresh the documents of these names, or all."""
    for document in documents():
        if names and document.name not in names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            text = refreshed(document, Path(folder))
        if text != document.read_text(encoding="utf-8"):
            document.write_text(text, encoding="utf-8")
            sys.stdout.write(f"{document.name}: new outputs\n")


if __name__ == "__main__":
    main(sys.argv[1:])
