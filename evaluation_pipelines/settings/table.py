"""The page of all settings, ``docs/settings.md``."""

from typing import NamedTuple

from pydantic import ByteSize

from evaluation_pipelines.settings import Settings, variable_of
from evaluation_pipelines.settings.data import USUAL_START_DATE


class SettingRow(NamedTuple):
    """One line of the settings table."""

    variable: str
    default: str
    description: str


def settings_table() -> list[SettingRow]:
    """Return variable, default and description of every setting, in the order of declaration."""
    defaults = {"data_dir": Settings.model_fields["data_dir"].default}
    return [
        SettingRow(
            variable=variable_of(name),
            default=shown_value(
                USUAL_START_DATE  # whether this folder has a demo or not
                if name == "start_date"
                else field.get_default(call_default_factory=True, validated_data=defaults)
            ),
            description=field.description or "",
        )
        for name, field in Settings.model_fields.items()
    ]


def shown_value(value: object) -> str:
    """Return a value as people write it; nothing for ``None``."""
    if value is None or value == ():
        return ""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, ByteSize):
        return value.human_readable().replace(".0", "")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _code(default: str) -> str:
    return f"`{default}`" if default else "none"


_HEAD = """# Settings

Environment variables, or lines of a file `.env` in the working directory. An invalid value is an
error that names the variable, the fault and what is allowed.
"""


def settings_markdown() -> str:
    """Return the page as Markdown."""
    rows = [
        f"| `{row.variable}` | {_code(row.default)} | {row.description} |"
        for row in settings_table()
    ]
    table = "\n".join(["| variable | default | meaning |", "|---|---|---|", *rows])
    return f"{_HEAD}\n{table}\n"
