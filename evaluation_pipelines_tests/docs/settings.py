"""Write ``docs/settings.md``, the page of all settings.

Run it with ``python -m evaluation_pipelines_tests.docs.settings``.
"""

from evaluation_pipelines.cli.settings import settings_table
from evaluation_pipelines_tests.docs.documents import FOLDER

PAGE = FOLDER / "settings.md"

_HEAD = """# Settings

Environment variables, or lines of a file `.env` in the working directory. An invalid value is an
error that names the variable, the fault and the allowed values. Each start warns of removed
settings, and of unknown names that resemble a setting.
"""


def settings_markdown() -> str:
    rows = [
        f"| `{row.variable}` | {_code(row.default)} | {row.description} |"
        for row in settings_table()
    ]
    table = "\n".join(["| variable | default | meaning |", "|---|---|---|", *rows])
    return f"{_HEAD}\n{table}\n"


def _code(default: str) -> str:
    return f"`{default}`" if default else "none"


if __name__ == "__main__":
    PAGE.write_text(settings_markdown(), "utf-8")
