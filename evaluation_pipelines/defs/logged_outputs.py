"""Outputs of steps that log a materialization for each date.

A daily table logs a materialization for each date that was built, so that a failed date does not
count as materialized. Without an output Dagster would skip all later steps of the run; an ordinary
output would report every date of the run as materialized, failed ones included.
"""

from collections.abc import Iterable, Iterator

import dagster as dg

SOURCE_ASSET_OBSERVATION = "__source_asset_observation__"
"""Dagster's mark of an output whose events the step has logged."""


def logged_outputs(
    context: dg.AssetExecutionContext, tables: Iterable[str]
) -> Iterator[dg.Output[None]]:
    """Yield the outputs of the selected ``tables``, so that later steps of the run start.

    Args:
        context: Context of the step, after its tables are written.
        tables: Names of tables, each after the tables it is built from.
    """
    selected = context.op_execution_context.selected_output_names
    for name in tables:
        if name in selected:
            yield dg.Output(None, name, metadata={SOURCE_ASSET_OBSERVATION: True})
