-- Grain: one row per column of the {table} that the collector writes.
select
    name,
    type
from system.columns
where database = currentDatabase() and table = {table:String}
order by position
