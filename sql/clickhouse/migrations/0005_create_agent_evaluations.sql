-- Grain: one row per evaluation of an agent, read it with `final`.
-- Keyed and replaced like reputation_events. The id is text: ClickHouse sorts UUIDs by their
-- second half first, and ties are broken by the id as people read it.
create table if not exists agent_evaluations
(
    evaluation_id String comment 'the same for the same evaluation, however often it is loaded',
    organization_id String comment 'organization of the agent',
    agent_id String comment 'portable name of the agent within its organization',
    evaluated_at DateTime64(6, 'UTC') comment 'when the evaluated work ended',
    passed Bool comment 'whether it was good enough',
    latency_ms Nullable(Float64) comment 'how long it took; null when not known',
    latency_budget_ms Float64 comment 'how long it may take',
    model String comment 'model behind the agent; empty when not known',
    source LowCardinality(String) comment 'session, or the integration that wrote it',
    reference_id String comment 'id of what was evaluated',
    revision UInt64 comment 'grows with each writing; the newest wins',
    is_deleted UInt8 comment '1: the evaluation no longer holds'
)
engine = ReplacingMergeTree(revision, is_deleted)
partition by toYYYYMM(evaluated_at)
order by (organization_id, agent_id, evaluated_at, evaluation_id)
comment 'One row per evaluation of an agent; read with final'
