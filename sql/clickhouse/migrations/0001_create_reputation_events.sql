-- Grain: one row per signal about an identity, read it with `final`.
-- The newest revision of a row wins. The time and the identity are part of the key, so that a
-- signal whose time or identity changes leaves a row behind: its writer marks that one deleted.
create table if not exists reputation_events
(
    event_id UUID comment 'the same for the same signal, however often it is loaded',
    timestamp DateTime64(3, 'UTC') comment 'when it happened',
    identity_id UUID comment 'whom it is about',
    category LowCardinality(String) comment 'task_quality, economic or identity_hygiene',
    event_type LowCardinality(String) comment 'such as task_completed or payment_failed',
    score_delta Float32 comment '-1 to 1: how much it speaks for or against the identity',
    confidence Float32 default 1.0 comment '0 to 1: how sure the source is',
    reference_type String comment 'session, transaction or attestation',
    reference_id String comment 'id of what the signal is about',
    attributes Map(String, String) comment 'what else the source said',
    revision UInt64 comment 'grows with each writing; the newest wins',
    is_deleted UInt8 comment '1: the signal no longer holds'
)
engine = ReplacingMergeTree(revision, is_deleted)
partition by toYYYYMM(timestamp)
order by (identity_id, timestamp, event_id)
ttl toDateTime(timestamp) + interval 3 year
comment 'One row per signal about an identity; read with final'
