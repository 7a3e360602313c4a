-- Grain: one row per identity as last computed, read it with `final`.
create table if not exists reputation_scores
(
    identity_id UUID comment 'whom the score is about',
    computed_at DateTime64(3, 'UTC') comment 'end of the 90 days when a value last changed',
    overall_score Float64 comment '-1 to 1: weighted sum of the three category scores',
    task_quality_score Float64 comment '-1 to 1: mean delta of its signals, 0 without any',
    economic_score Float64 comment '-1 to 1: mean delta of its signals, 0 without any',
    identity_hygiene_score Float64 comment '-1 to 1: mean delta of its signals, 0 without any',
    total_events UInt64 comment 'signals in the 90 days',
    positive_events UInt64 comment 'signals with a delta above 0',
    negative_events UInt64 comment 'signals with a delta below 0',
    confidence Float64 comment '0 to 1: total_events / 100, at most 1',
    score_7d_ago Nullable(Float64) comment 'overall score as of 7 days before; null without signals',
    score_30d_ago Nullable(Float64) comment 'overall score as of 30 days before, likewise',
    overall_observed Nullable(Float64) comment 'weights rescaled to the categories with signals',
    categories_observed Array(LowCardinality(String)) comment 'categories with signals, sorted',
    weighted_overall Float64 comment 'like overall_score, signals weighted by their confidence'
)
engine = ReplacingMergeTree(computed_at)
order by identity_id
comment 'One row per identity: its reputation over 90 days; read with final'
