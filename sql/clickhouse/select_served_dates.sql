-- Grain: one row per date of a served table; ClickHouse answers it from its parts without any row.
select
    session_date,
    min(_served_as) as first_stamp,
    max(_served_as) as last_stamp,
    count() as row_count
from {table:Identifier}
group by session_date
