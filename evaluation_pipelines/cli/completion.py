"""Command ``completion``: what a shell needs to complete commands and options."""

from enum import StrEnum
from typing import Annotated

import typer

from evaluation_pipelines.cli.output import write_output

PROGRAM = "evaluation-pipelines"


class Shell(StrEnum):
    """Shells that can complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="The shell.")],
) -> None:
    """Print the script that lets a shell complete commands and options.

    bash and zsh: source <(evaluation-pipelines completion bash). fish: evaluation-pipelines
    completion fish > ~/.config/fish/completions/evaluation-pipelines.fish.
    """
    from typer._completion_shared import get_completion_script

    from evaluation_pipelines.cli.program import COMPLETE_VARIABLE

    write_output(
        get_completion_script(prog_name=PROGRAM, complete_var=COMPLETE_VARIABLE, shell=shell.value)
        + "\n"
    )


def enable_completion() -> None:
    """Let the program answer the scripts."""
    from typer._completion_classes import completion_init

    completion_init()
