"""Rows exchanged between Polars and DuckDB.

This is a separate module because Polars keeps the classes it has seen, and everything their module
imported, until exit; DuckDB would then report leaks.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ArrowRows:
    """A frame or a relation that exposes only an Arrow stream.

    Given each other's own types, Polars and DuckDB would import pyarrow, which takes longer than
    most queries.
    """

    source: Any

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the stream (Arrow's PyCapsule interface)."""
        return self.source.__arrow_c_stream__(requested_schema)
