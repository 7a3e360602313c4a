-- Grain: one row per identity whose reputation is no longer what reputation_scores holds.
-- Refreshed by time and not by inserts: a view that an insert triggers sees nothing but the
-- inserted rows, and never notices that a signal has become older than 90 days.
-- An identity without a row on one side of the join has the default values there: zeros and nulls.
-- So whoever has lost the last signal keeps a row, with zeros.
create materialized view if not exists reputation_scores_mv
refresh every 1 minute append to reputation_scores
as
with toDateTime64(0, 3, 'UTC') as absent
select
    if(fresh.computed_at = absent, stored.identity_id, fresh.identity_id) as identity_id,
    now64(3, 'UTC') as computed_at,
    fresh.overall_score as overall_score,
    fresh.task_quality_score as task_quality_score,
    fresh.economic_score as economic_score,
    fresh.identity_hygiene_score as identity_hygiene_score,
    fresh.total_events as total_events,
    fresh.positive_events as positive_events,
    fresh.negative_events as negative_events,
    fresh.confidence as confidence,
    fresh.score_7d_ago as score_7d_ago,
    fresh.score_30d_ago as score_30d_ago,
    fresh.overall_observed as overall_observed,
    fresh.categories_observed as categories_observed,
    fresh.weighted_overall as weighted_overall
from reputation_scores_as_of(as_of = toString(now64(3, 'UTC'))) as fresh
full join (select * from reputation_scores final) as stored
    on fresh.identity_id = stored.identity_id
-- Sums of many numbers differ in the last digits from one refresh to the next.
where
    stored.computed_at = absent
    or fresh.total_events != stored.total_events
    or fresh.positive_events != stored.positive_events
    or fresh.negative_events != stored.negative_events
    or fresh.categories_observed != stored.categories_observed
    or abs(fresh.task_quality_score - stored.task_quality_score) > 1e-12
    or abs(fresh.economic_score - stored.economic_score) > 1e-12
    or abs(fresh.identity_hygiene_score - stored.identity_hygiene_score) > 1e-12
    or abs(fresh.weighted_overall - stored.weighted_overall) > 1e-12
    or not round(fresh.score_7d_ago, 9) <=> round(stored.score_7d_ago, 9)
    or not round(fresh.score_30d_ago, 9) <=> round(stored.score_30d_ago, 9)
settings join_use_nulls = 0
