-- Grain: one row per dropped table of a name whose files are still there.
select toString(uuid) as uuid, table as name
from system.dropped_tables
where database = currentDatabase() and startsWith(table, {prefix:String}) and endsWith(table, {suffix:String})
