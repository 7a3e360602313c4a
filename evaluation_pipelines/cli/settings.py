"""Command ``settings``: every setting with its value."""

from collections.abc import Iterator
from typing import Annotated, NamedTuple

import typer
from pydantic import ByteSize, SecretStr

from evaluation_pipelines.cli.output import OutputFormat, print_line, print_table
from evaluation_pipelines.cli.rows import FORMAT, Record, write_rows
from evaluation_pipelines.settings import Settings, load_settings, variable_of
from evaluation_pipelines.settings.data import USUAL_START_DATE

_HIDDEN = "(hidden)"


def settings(
    every: Annotated[
        bool,
        typer.Option("--all", help="Also settings with default values (json and csv have all)."),
    ] = False,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
) -> None:
    """List the settings and their values.

    Settings are environment variables or lines of .env. Keys, and addresses that may hold a
    password, are hidden.
    """
    records = list(_records(load_settings()))
    if form is not OutputFormat.TABLE:
        write_rows(records, form)
        return
    shown = [record for record in records if every or record["is_set"]]
    if shown:
        names = ("setting", "value", "default", "meaning")
        rows = [[record[name] or None for name in names] for record in shown]
        print_table("Settings", names, rows, essential=2)
    if others := len(records) - len(shown):
        print_line(f"{others} settings have their default: settings --all")


def _records(found: Settings) -> Iterator[Record]:
    """Yield variable, value, default, whether it is set, and meaning of every setting."""
    for (name, field), row in zip(Settings.model_fields.items(), settings_table(), strict=True):
        value, is_set = getattr(found, name), name in found.model_fields_set
        is_hidden = is_set and (isinstance(value, SecretStr) or not field.repr)
        yield {
            "setting": row.variable,
            "value": _HIDDEN if is_hidden else shown_value(value),
            "default": row.default,
            "is_set": is_set,
            "meaning": row.description,
        }


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
