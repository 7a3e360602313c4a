"""Options that several commands share."""

import typer

SESSION = typer.Argument(
    metavar="SESSION", help="A session key or session id, or the beginning of one."
)
ORGANIZATION = typer.Option(
    "--organization", metavar="NAME", help="Organization, if several have such a session."
)

OTLP_PORT = 4318
"""Where agents send OTLP over HTTP unless they are given another address."""
