-- Grain: one row per identity that had a signal by {as_of}: its reputation then.
-- Signals older than 120 days take no part in any column: of them only the identities are read, so
-- that an identity keeps a row, of zeros, in a store that was filled anew as well.
-- The one text of the formula: the maintained view calls it with the present time, people and
-- tests with any other, as in: select * from reputation_scores_as_of(as_of = '2026-11-21 00:00:00')
create or replace view reputation_scores_as_of as
with
    signals as (
        select
            identity_id,
            category,
            toFloat64(score_delta) as delta,
            toFloat64(confidence) as trust,
            toDateTime64({as_of:String}, 3, 'UTC') as until,
            timestamp > until - interval 90 day as is_now,
            timestamp > until - interval 97 day and timestamp <= until - interval 7 day as is_7d,
            timestamp > until - interval 120 day and timestamp <= until - interval 30 day as is_30d,
            category = 'task_quality' as is_task,
            category = 'economic' as is_money,
            category = 'identity_hygiene' as is_hygiene
        from reputation_events final
        where
            timestamp <= toDateTime64({as_of:String}, 3, 'UTC')
            and timestamp > toDateTime64({as_of:String}, 3, 'UTC') - interval 120 day
    ),

    averages as (
        select
            identity_id,
            avgOrNullIf(delta, is_now and is_task) as task,
            avgOrNullIf(delta, is_now and is_money) as money,
            avgOrNullIf(delta, is_now and is_hygiene) as hygiene,
            avgOrNullIf(delta, is_7d and is_task) as task_7d,
            avgOrNullIf(delta, is_7d and is_money) as money_7d,
            avgOrNullIf(delta, is_7d and is_hygiene) as hygiene_7d,
            avgOrNullIf(delta, is_30d and is_task) as task_30d,
            avgOrNullIf(delta, is_30d and is_money) as money_30d,
            avgOrNullIf(delta, is_30d and is_hygiene) as hygiene_30d,
            ifNotFinite(avgWeightedIf(delta, trust, is_now and is_task), 0) as trusted_task,
            ifNotFinite(avgWeightedIf(delta, trust, is_now and is_money), 0) as trusted_money,
            ifNotFinite(avgWeightedIf(delta, trust, is_now and is_hygiene), 0) as trusted_hygiene,
            countIf(is_now) as total,
            countIf(is_now and delta > 0) as positive,
            countIf(is_now and delta < 0) as negative,
            countIf(is_7d) as total_7d,
            countIf(is_30d) as total_30d
        from signals
        group by identity_id
    ),

    everyone as (
        select distinct identity_id
        from reputation_events final
        where timestamp <= toDateTime64({as_of:String}, 3, 'UTC')
    )

select
    everyone.identity_id as identity_id,
    toDateTime64({as_of:String}, 3, 'UTC') as computed_at,
    0.40 * task_quality_score + 0.35 * economic_score + 0.25 * identity_hygiene_score
        as overall_score,
    ifNull(task, 0) as task_quality_score,
    ifNull(money, 0) as economic_score,
    ifNull(hygiene, 0) as identity_hygiene_score,
    total as total_events,
    positive as positive_events,
    negative as negative_events,
    least(1, total / 100) as confidence,
    if(
        total_7d = 0,
        null,
        0.40 * ifNull(task_7d, 0) + 0.35 * ifNull(money_7d, 0) + 0.25 * ifNull(hygiene_7d, 0)
    ) as score_7d_ago,
    if(
        total_30d = 0,
        null,
        0.40 * ifNull(task_30d, 0) + 0.35 * ifNull(money_30d, 0) + 0.25 * ifNull(hygiene_30d, 0)
    ) as score_30d_ago,
    overall_score / nullIf(
        0.40 * isNotNull(task) + 0.35 * isNotNull(money) + 0.25 * isNotNull(hygiene), 0
    ) as overall_observed,
    arrayFilter(
        name -> name != '',
        [
            if(isNotNull(money), 'economic', ''),
            if(isNotNull(hygiene), 'identity_hygiene', ''),
            if(isNotNull(task), 'task_quality', '')
        ]
    ) as categories_observed,
    0.40 * trusted_task + 0.35 * trusted_money + 0.25 * trusted_hygiene as weighted_overall
from everyone
left join averages on everyone.identity_id = averages.identity_id
settings join_use_nulls = 0
