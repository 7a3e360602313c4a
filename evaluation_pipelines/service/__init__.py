"""HTTP: receive telemetry, answer programs, show pages.

``serve`` is its process, ``mcp_server`` answers agents.
"""

from starlette.convertors import PathConvertor, register_url_convertor


class _AnyPath(PathConvertor):
    """The rest of a path: ids of telemetry may have slashes, and line feeds, too."""

    regex = "(?s:.*)"


register_url_convertor("path", _AnyPath())  # before any route is made
