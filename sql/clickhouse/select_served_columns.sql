-- Grain: one row per column of each table of the database.
select
    table,
    name,
    type,
    default_kind
from system.columns
where database = currentDatabase()
order by table, position
