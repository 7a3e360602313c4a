"""Command ``parts``: the Parquet files of a table."""

from typing import Annotated

import typer

from evaluation_pipelines.cli.dates import DATES_TO_LIST, dates_in, parse_dates
from evaluation_pipelines.cli.output import OutputFormat, one_line, print_line
from evaluation_pipelines.cli.rows import FORMAT, write_rows
from evaluation_pipelines.schemas import TABLES
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import read_stores

_TABLES = {each.name: each for each in TABLES}


def parts(
    table: Annotated[str, typer.Argument(help="Name of a table, such as session_performance.")],
    dates: Annotated[str | None, DATES_TO_LIST] = None,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
) -> None:
    """Print the paths of the current Parquet files of a table, one per line.

    A folder also holds files that were replaced or are not yet valid: read only the files of this
    list. Each is verified against its checksum. A file stays for at least an hour after it was
    replaced.
    """
    if table not in _TABLES:
        known = ", ".join(sorted(_TABLES))
        raise typer.BadParameter(f"there is no table {one_line(table)}, only: {known}")
    chosen, date_range = _TABLES[table], parse_dates(dates)
    with read_stores(load_settings()) as stores:
        lake = stores.lake
        days = None if date_range is None else dates_in(lake.partitions(chosen), date_range)
        paths = lake.files(chosen, days).names
    if form is not OutputFormat.TABLE:
        write_rows([{"path": each} for each in paths], form, ["path"])
        return
    for path in paths:
        print_line(path)
