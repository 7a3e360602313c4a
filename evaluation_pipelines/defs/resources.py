"""Resources of assets, sensors and checks."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg
from dagster_duckdb import DuckDBResource

from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import Stores, open_stores


class StoresResource(dg.ConfigurableResource[Stores]):
    """Landing folder, lake and ledger, configured by the environment of the run.

    Nothing is run configuration, since a ledger URL may contain a password.
    """

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator[Stores]:
        """Open the stores for one run or tick."""
        with open_stores(load_settings()) as stores:
            yield stores


@dg.definitions
def resources() -> dg.Definitions:
    """Return every resource by the name of its parameter."""
    return dg.Definitions(
        resources={
            "stores": StoresResource(),
            # In memory: a DuckDB file that is open for writing would lock out other processes.
            "duckdb": DuckDBResource(database=":memory:"),
        }
    )
