-- Grain: one row per migration that was applied.
-- Reads: schema_migrations.
select
    name,
    applied_at
from schema_migrations final
order by name
