"""Profiles whose corrections lean one way, with the criteria that the ledger knows."""

import polars as pl

from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.scorecards.domain.recalibration import Lean, leans
from evaluation_pipelines.storage.stores import Stores


def profile_leans(stores: Stores, overrides: pl.DataFrame) -> list[Lean]:
    """Return the lean of each corrected profile version, and of each criterion named there.

    Args:
        stores: The stores.
        overrides: OVERRIDES.
    """
    registry = ProfileStore(stores.ledger).registry()
    return leans(
        overrides, {each.key: len(each.profile.criterion_ids) for each in registry.versions}
    )
