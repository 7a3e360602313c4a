-- Tables of reputation on a cluster: see reputation.md.
create table evaluation.schema_migrations on cluster '{cluster}'
(
    name String,
    applied_at DateTime64(6, 'UTC')
)
engine = ReplicatedReplacingMergeTree('/clickhouse/tables/all/evaluation/schema_migrations', '{shard}-{replica}')
order by name;

create table evaluation.reputation_events_local on cluster '{cluster}'
(
    event_id UUID,
    timestamp DateTime64(3, 'UTC'),
    identity_id UUID,
    category LowCardinality(String),
    event_type LowCardinality(String),
    score_delta Float32,
    confidence Float32 default 1.0,
    reference_type String,
    reference_id String,
    attributes Map(String, String),
    revision UInt64,
    is_deleted UInt8
)
engine = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/evaluation/reputation_events', '{replica}', revision, is_deleted)
partition by toYYYYMM(timestamp)
order by (identity_id, timestamp, event_id)
ttl toDateTime(timestamp) + interval 3 year;

create table evaluation.reputation_events on cluster '{cluster}' as evaluation.reputation_events_local
engine = Distributed('{cluster}', 'evaluation', 'reputation_events_local', sipHash64(identity_id));

create table evaluation.agent_evaluations_local on cluster '{cluster}'
(
    evaluation_id String,
    organization_id String,
    agent_id String,
    evaluated_at DateTime64(6, 'UTC'),
    passed Bool,
    latency_ms Nullable(Float64),
    latency_budget_ms Float64,
    model String,
    source LowCardinality(String),
    reference_id String,
    revision UInt64,
    is_deleted UInt8
)
engine = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/evaluation/agent_evaluations', '{replica}', revision, is_deleted)
partition by toYYYYMM(evaluated_at)
order by (organization_id, agent_id, evaluated_at, evaluation_id);

create table evaluation.agent_evaluations on cluster '{cluster}' as evaluation.agent_evaluations_local
engine = Distributed('{cluster}', 'evaluation', 'agent_evaluations_local', sipHash64(organization_id, agent_id));

create table evaluation.session_signals on cluster '{cluster}'
(
    session_date Date,
    event_id UUID
)
engine = ReplicatedReplacingMergeTree('/clickhouse/tables/all/evaluation/session_signals', '{shard}-{replica}')
order by (session_date, event_id);

create table evaluation.reputation_scores on cluster '{cluster}'
(
    identity_id UUID,
    computed_at DateTime64(3, 'UTC'),
    overall_score Float64,
    task_quality_score Float64,
    economic_score Float64,
    identity_hygiene_score Float64,
    total_events UInt64,
    positive_events UInt64,
    negative_events UInt64,
    confidence Float64,
    score_7d_ago Nullable(Float64),
    score_30d_ago Nullable(Float64),
    overall_observed Nullable(Float64),
    categories_observed Array(LowCardinality(String)),
    weighted_overall Float64
)
engine = ReplicatedReplacingMergeTree('/clickhouse/tables/all/evaluation/reputation_scores', '{shard}-{replica}', computed_at)
order by identity_id;

alter user evaluation on cluster '{cluster}' settings
    distributed_foreground_insert = 1,
    insert_quorum = 'auto',
    insert_quorum_parallel = 0,
    select_sequential_consistency = 1;
