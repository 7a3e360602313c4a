"""The asset ``retention``: what it deletes and reports."""

import dagster as dg

from evaluation_pipelines_tests.defs.code_location import CodeLocation


def test_nothing_is_deleted_unless_it_is_set_and_the_oldest_is_shown(
    location: CodeLocation,
) -> None:
    location.land(0, 1)
    location.build(0, 1)

    assert location.execute("expire").success

    event = location.instance.get_latest_materialization_event(dg.AssetKey("retention"))
    assert event is not None
    materialization = event.asset_materialization
    assert materialization is not None
    shown = {name: each.value for name, each in materialization.metadata.items()}
    assert (shown["rows taken out"], shown["bytes freed"]) == (0, 0)
    assert shown["oldest sessions"] == shown["oldest events"]
