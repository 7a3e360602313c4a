"""The table of all settings, for readers."""

from typing import NamedTuple

from pydantic import ByteSize

from evaluation_pipelines.settings import Settings, variable_of


class SettingRow(NamedTuple):
    """One line of the settings table."""

    variable: str
    default: str
    description: str


def settings_table() -> list[SettingRow]:
    """Variable, default and description of every setting, in the order they are declared."""
    defaults = {"data_dir": Settings.model_fields["data_dir"].default}
    return [
        SettingRow(
            variable=variable_of(name),
            default=_shown(field.get_default(call_default_factory=True, validated_data=defaults)),
            description=field.description or "",
        )
        for name, field in Settings.model_fields.items()
    ]


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, ByteSize):
        return value.human_readable().replace(".0", "")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _code(default: str) -> str:
    return f"`{default}`" if default else "none"


def settings_markdown() -> str:
    """The settings table as Markdown."""
    rows = [
        f"| `{row.variable}` | {_code(row.default)} | {row.description} |"
        for row in settings_table()
    ]
    return "\n".join(["| variable | default | meaning |", "|---|---|---|", *rows])
