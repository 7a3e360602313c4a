"""Commands ``serve`` and ``mcp``: receive telemetry, keep the data current, answer programs."""

from importlib.util import find_spec
from typing import Annotated

import typer

from evaluation_pipelines.cli.conventions import GRPC_PORT, OTLP_PORT
from evaluation_pipelines.cli.output import print_error
from evaluation_pipelines.errors import UserError
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import open_stores, read_stores


class NotInstalledError(UserError):
    """The packages of an extra are not installed."""


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port.")] = 8400,
    otlp: Annotated[
        bool,
        typer.Option("--otlp", help=f"Also receive on {OTLP_PORT}, the usual port of OTLP/HTTP."),
    ] = False,
    otlp_grpc: Annotated[
        bool,
        typer.Option(
            "--otlp-grpc", help=f"Also receive on {GRPC_PORT}, the usual port of OTLP/gRPC."
        ),
    ] = False,
    builds: Annotated[
        bool | None,
        typer.Option(
            "--build/--no-build",
            help="Read, build and publish new telemetry within seconds. Default: on without keys, "
            "with the ledger in a file and telemetry in a folder.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Run the service: receiver, API and web pages.

    It also keeps the data current. Ctrl-C stops it.
    """
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        raise NotInstalledError(
            "The service is an extra: pip install 'evaluation-pipelines[service]'."
        )
    from evaluation_pipelines.service.serve import serve as run  # slow to import

    with open_stores(load_settings(), is_served=True) as stores:
        otlp_port, grpc_port = OTLP_PORT if otlp else None, GRPC_PORT if otlp_grpc else None
        run(stores, host, port, otlp_port, grpc_port, _print_address, builds=builds)


def _print_address(url: str) -> None:
    print_error(f"{url} (Ctrl-C stops it)")


def mcp() -> None:
    """Answer an agent's questions about sessions over MCP.

    Read-only. If there are keys, it has the rights of the key in EVAL_MCP_KEY (text requires the
    role reviewer). Agent programs start it.
    """
    if find_spec("mcp") is None or find_spec("fastapi") is None:
        raise NotInstalledError("MCP is an extra: pip install 'evaluation-pipelines[service,mcp]'.")
    from evaluation_pipelines.service.mcp_server import serve_stdio  # slow to import

    with read_stores(load_settings()) as stores:
        serve_stdio(stores)
