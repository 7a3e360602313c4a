"""Command ``mcp``: answer the questions of an agent over standard input and output."""

from importlib.util import find_spec

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import read_stores


class NotInstalledError(UserError):
    """The package ``mcp`` is not installed."""


def mcp() -> None:
    """Answer an agent's questions about sessions over MCP.

    Read only. Once there are keys, it has the rights of the key in EVAL_MCP_KEY: text needs the
    role reviewer. An agent program starts it itself.
    """
    if find_spec("mcp") is None or find_spec("fastapi") is None:
        raise NotInstalledError("MCP is an extra: pip install 'evaluation-pipelines[service,mcp]'.")
    from evaluation_pipelines.service.mcp_server import serve_stdio  # slow to import

    with read_stores(load_settings()) as stores:
        serve_stdio(stores)
