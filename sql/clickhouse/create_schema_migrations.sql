-- Grain: one row per migration that was applied, read it with `final`.
create table if not exists schema_migrations
(
    name String comment 'file name without its ending',
    applied_at DateTime64(6, 'UTC') comment 'when it was applied last'
)
engine = ReplacingMergeTree
order by name
comment 'Migrations that were applied'
