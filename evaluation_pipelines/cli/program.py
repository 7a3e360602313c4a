"""The command-line program ``evaluation-pipelines``."""

from typing import Annotated

import typer

from evaluation_pipelines.cli.commands import Commands
from evaluation_pipelines.cli.output import (
    escape_unencodable_output,
    one_line,
    print_error,
    print_line,
)
from evaluation_pipelines.errors import UserError

app = typer.Typer(
    cls=Commands,
    help="Turn agent telemetry into trustworthy session scores.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        from importlib.metadata import version

        print_line(version("evaluation-pipelines"))
        raise typer.Exit


@app.callback()
def program(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Turn agent telemetry into trustworthy session scores."""


def main() -> None:
    """Run the program; errors that users can fix are printed without a traceback."""
    escape_unencodable_output()
    try:
        app()
    except UserError as error:
        print_error(f"error: {error}")
        raise SystemExit(1) from None
    except OSError as error:
        where = f"{one_line(str(error.filename))}: " if error.filename else ""
        print_error(f"error: {where}{error.strerror or error}")
        raise SystemExit(1) from None
