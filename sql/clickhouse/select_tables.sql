-- Grain: one row per table and view of the database.
select name
from system.tables
where database = currentDatabase()
order by name
