-- Grain: one row per event whose texts were logged: those of the copy that agent_events has.
-- A line may have an event of several organizations; whose those without are, a build decides.
-- Reads: event_texts_landed, agent_events.
select
    texts.event_id,
    events.organization_id,
    texts.session_id,
    texts.session_date,
    texts.content,
    texts.tool_parameters,
    texts.error,
    texts.attributes
from event_texts_landed as texts
inner join agent_events as events
    on
        texts.event_id = events.event_id
        and texts.source_file_id = events.source_file_id
        and texts.source_offset = events.source_offset
        and coalesce(texts.organization_id, 'default') in (
            coalesce(events.organization_id, 'default'), 'default'
        )
-- A line that was retried lands again.
qualify row_number() over (
    partition by
        events.organization_id,
        texts.event_id,
        texts.session_date
    order by texts.organization_id is distinct from events.organization_id
) = 1
