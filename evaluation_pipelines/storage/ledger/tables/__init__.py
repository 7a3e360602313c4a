"""Tables of the ledger with a description of every column.

A new ledger is created from these tables. A change here also needs a migration for existing
ledgers: a file in ``migrations/versions`` and its revision in ``ledger.py``.
"""

from evaluation_pipelines.storage.ledger.tables import evaluations, judging, people, telemetry
from evaluation_pipelines.storage.ledger.tables.columns import METADATA

__all__ = ["METADATA", "evaluations", "judging", "people", "telemetry"]
