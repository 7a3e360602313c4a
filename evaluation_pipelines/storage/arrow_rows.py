"""Rows on their way between Polars and DuckDB.

In a module of its own: Polars remembers the classes it has met until the very end, and with them
all that their module has imported. DuckDB would complain that it is never let go.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ArrowRows:
    """A frame or a relation as an Arrow stream, and as nothing else.

    Polars and DuckDB know each other's types, and then want pyarrow: importing that takes longer
    than most queries do.
    """

    source: Any

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The stream, by the convention of Arrow's PyCapsule interface."""
        return self.source.__arrow_c_stream__(requested_schema)
