"""Outputs of steps that tell of their dates one by one.

The daily tables log a materialization for each date that was made, so that one that failed does
not count as made. An output that is never yielded has Dagster skip everything after it in the same
run; yielded as usual, it would report every date of the run as made, the failed ones too.
"""

from collections.abc import Iterable, Iterator

import dagster as dg
from dagster._core.definitions.source_asset import SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION

_REPORTED = {SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION: True}
"""Dagster's own mark of an output whose events the step has logged already."""


def reported_outputs(
    context: dg.AssetExecutionContext, tables: Iterable[str]
) -> Iterator[dg.Output[None]]:
    """Let what comes after some tables in the same run begin; call it when they are written.

    Of the ``tables``, each after those it is made from, the run may have selected some.
    """
    selected = context.op_execution_context.selected_output_names
    for name in tables:
        if name in selected:
            yield dg.Output(None, name, metadata=_REPORTED)
