-- Grain: one row per window of a session whose events carry a sequence.
-- Reads: session_events, event_windows.
-- A resumed session counts from 0 again, in a new process: gaps are measured within each run of a
-- process. A drop of 10 or less is an event that arrived out of order. Sums are hugeint because
-- telemetry may claim any number.
with sequenced as (
    select
        session_no,
        position,
        sequence::hugeint as sequence,
        sequence = 0
        or sequence::hugeint < lag(sequence) over (
            partition by session_no
            order by position
        )::hugeint - 10 as starts_process
    from session_events
    where sequence is not null
),

processes as (
    select
        *,
        -- No filter: over a window it takes DuckDB a hundred times as long, with long sessions.
        count(case when starts_process then 1 end) over (
            partition by session_no
            order by position
        ) as process_no
    from sequenced
),

gaps as (
    select
        session_no,
        position,
        -- An equal neighbour is no gap, nor is the first of a process.
        greatest(
            sequence - lag(sequence, 1, sequence - 1) over (
                partition by
                    session_no,
                    process_no
                order by
                    sequence,
                    position
            ) - 1,
            0
        ) as missing
    from processes
),

sequenced_sessions as (
    select distinct session_no
    from sequenced
)

-- The gap counts for the window of the event after it.
select
    event_windows.session_no,
    event_windows.window_no,
    try_cast(coalesce(sum(gaps.missing), 0) as bigint) as missing_events
from event_windows
inner join sequenced_sessions using (session_no)
left join gaps using (session_no, position)
group by
    event_windows.session_no,
    event_windows.window_no
