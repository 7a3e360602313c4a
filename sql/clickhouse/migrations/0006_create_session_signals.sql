-- Grain: one row per session that ever was a signal, its score may be gone since.
-- By date, so that the signals of sessions that no longer exist are found without a search of all.
create table if not exists session_signals
(
    session_date Date comment 'UTC day the session began',
    event_id UUID comment 'its signal in reputation_events, its evaluation in agent_evaluations'
)
engine = ReplacingMergeTree
order by (session_date, event_id)
comment 'One row per session that ever was a signal'
