"""Command ``agent-config``: what an administrator rolls out to users of an agent program."""

import re
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from shlex import quote
from typing import Annotated
from urllib.parse import urlsplit

import typer

from evaluation_pipelines.cli.conventions import OTLP_PORT, refuse_unused
from evaluation_pipelines.cli.output import one_line, print_error, write_output
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.telemetry.domain.dialects.registry import PROGRAMS, SETTINGS
from evaluation_pipelines.telemetry.domain.dialects.setup import Receiver, SettingsFile

Program = StrEnum("Program", {name: name for name in SETTINGS})  # type: ignore[misc]

_URL = re.compile(r"https?://[\w.:\[\]-]+(/[\w./~-]*)?", re.ASCII)
_KEY = re.compile(r"[\w.~+/=-]+", re.ASCII)
_ATTRIBUTE = re.compile(r"[A-Za-z][\w.-]*", re.ASCII)
_RECEIVER = f"http://127.0.0.1:{OTLP_PORT}"
_LOCAL = ("localhost", "127.0.0.1", "::1")


def _titles(part: str) -> str:
    return ", ".join(agent.title for agent in PROGRAMS if getattr(agent, part) is not None)


def agent_config(  # noqa: PLR0913, PLR0917 - one parameter per option
    program: Annotated[
        Program, typer.Argument(metavar="AGENT", help=f"The agent: {', '.join(SETTINGS)}.")
    ],
    endpoint: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help=f"Receiver address, without /v1/logs. Default: {_RECEIVER}.",
        ),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="A key with the role ingest: keys create NAME --role ingest.")
    ] = None,
    texts: Annotated[
        bool,
        typer.Option(
            "--texts",
            help=f"Also send prompts and, from {_titles('parameters_switch')}, tool parameters.",
        ),
    ] = False,
    attribute: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Attribute of every record, such as team.id=platform (may be repeated).",
        ),
    ] = None,
    command: Annotated[
        bool,
        typer.Option(
            "--command", help=f"Print the slash command /performance of {_titles('slash_command')}."
        ),
    ] = False,
    transcripts: Annotated[
        bool,
        typer.Option(
            "--transcripts",
            help=f"Print the hook of {_titles('transcript_hook')} that sends transcripts in place "
            "of telemetry.",
        ),
    ] = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write the files into this folder.")
    ] = None,
) -> None:
    """Print the telemetry settings of an agent program or library.

    Standard error names the place of each file. See docs/service.md.
    """
    sent = {"--texts": texts, "--attribute": bool(attribute)}
    if command:
        other = {"--endpoint": endpoint is not None, "--key": key is not None}
        refuse_unused("--command", {**other, **sent, "--transcripts": transcripts})
        files = [_slash_command(program)]
    else:
        if transcripts:  # the hook sends files as they are
            refuse_unused("--transcripts", sent)
        pairs = dict(map(_pair, attribute or ()))
        receiver = Receiver(
            _endpoint(_RECEIVER if endpoint is None else endpoint), _key(key), texts, pairs
        )
        is_open = receiver.endpoint.startswith("http:") and not _is_local(receiver.endpoint)
        if receiver.key and is_open:
            print_error("warning: the key would travel readable: use https, see docs/service.md")
        files = [_hook(program, receiver)] if transcripts else SETTINGS[str(program)](receiver)
    for file in files:
        print_error(f"{file.name}: {file.where}")
    if output is None:
        _print(files)
    else:
        _write(files, output)


def _slash_command(program: Program) -> SettingsFile:
    known = {agent.name: agent.slash_command for agent in PROGRAMS if agent.slash_command}
    if program not in known:
        raise _only_for("--command", known, program)
    landing = load_settings().landing_dir
    return known[program](quote(str(landing.absolute())) if isinstance(landing, Path) else None)


def _hook(program: Program, receiver: Receiver) -> SettingsFile:
    known = {agent.name: agent.transcript_hook for agent in PROGRAMS if agent.transcript_hook}
    if program not in known:
        raise _only_for("--transcripts", known, program)
    return known[program](receiver)


def _only_for(option: str, known: Iterable[str | None], program: Program) -> typer.BadParameter:
    agents = ", ".join(filter(None, known))
    return typer.BadParameter(f"{option} is for {agents}: {program} has no such file")


def _print(files: list[SettingsFile]) -> None:
    """Print the files: one as it is, several under their names."""
    for file in files:
        write_output(f"# {file.name}\n{file.text}" if len(files) > 1 else file.text)


def _write(files: list[SettingsFile], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        write_output(file.text, folder / file.name)


def _endpoint(url: str) -> str:
    if not _URL.fullmatch(url):
        shown = one_line(url) or "is empty"
        raise typer.BadParameter(f"--endpoint {shown}: write https://eval.example.com")
    if url.rstrip("/").endswith("/v1/logs"):
        raise typer.BadParameter("--endpoint is the base of the receiver, without /v1/logs")
    return url.rstrip("/")


def _is_local(url: str) -> bool:
    return urlsplit(url).hostname in _LOCAL


def _key(key: str | None) -> str | None:
    if key is not None and not _KEY.fullmatch(key):
        raise typer.BadParameter("--key has characters that no key has")
    return key


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (equals and value and _ATTRIBUTE.fullmatch(name)):
        raise typer.BadParameter(f"--attribute {one_line(text)}: write NAME=VALUE")
    return name, value
