"""What assets, sensors and checks are given."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg
from dagster_duckdb import DuckDBResource

from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import Stores, open_stores


class StoresResource(dg.ConfigurableResource[Stores]):
    """Landing folder, lake and ledger, as the environment of the run says.

    Nothing of it is run configuration: a ledger URL may hold a password.
    """

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator[Stores]:
        """Open the stores for one run or tick."""
        with open_stores(load_settings()) as stores:
            yield stores


@dg.definitions
def resources() -> dg.Definitions:
    """Every resource, by the name under which it is asked for."""
    return dg.Definitions(
        resources={
            "stores": StoresResource(),
            # In memory: a DuckDB file that is open for writing would lock everybody else out.
            "duckdb": DuckDBResource(database=":memory:"),
        }
    )
