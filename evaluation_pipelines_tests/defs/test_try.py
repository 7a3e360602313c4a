from evaluation_pipelines_tests.defs.code_location import *
def test_try(location):
    location.land(0,1,2)
    r=location.build(0,2)
    assert r.success
    print(location.materialized("agent_events"))
    print(location.workplace.performance().to_dicts())
    print(location.check("agent_events","every_date_was_built"))
    for r in location.instance.fetch_materializations(dg.AssetKey("session_performance"),limit=5).records: print(r.asset_materialization)
    r=location.materialize(1,"agent_sessions")
    assert r.success
    for e in r.all_events: print(e.event_type_value, e.message)
    print(location.instance.get_status_by_partition(dg.AssetKey("agent_events"),[str(day(n)) for n in range(4)],repository().asset_graph.get(dg.AssetKey("agent_events")).partitions_def))
