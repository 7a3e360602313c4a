-- Grain: one row per dropped table of the database whose files are still there.
select
    toString(uuid) as uuid,
    table as name
from system.dropped_tables
where database = currentDatabase()
