"""Write the table of libraries into ``docs/telemetry.md``.

Run it with ``python -m evaluation_pipelines_tests.docs.libraries``.
"""

import re

from evaluation_pipelines.telemetry.domain.dialects.registry import LIBRARIES
from evaluation_pipelines_tests.docs.documents import FOLDER

PAGE = FOLDER / "telemetry.md"


def table() -> str:
    """Return the table in markdown."""
    rows = [
        f"| {library.title} | `{name}` "
        f"| {_session(library.session, has_session=library.has_session)} | {library.unknown} |"
        for name, library in LIBRARIES.items()
    ]
    head = ["| library | `agent-config` | session | unknown |", "|---|---|---|---|"]
    return "\n".join([*head, *rows])


def _session(line: str, *, has_session: bool) -> str:
    if not line:
        return "none: each run is a session"
    return line if has_session else f"`{line}`"


def with_table(page: str) -> str:
    """Return the page with the table of today."""
    return re.sub(
        r"(<!-- libraries -->\n).*?(?=\n\n)",
        lambda found: found[1] + table(),
        page,
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text("utf-8")), "utf-8")
