-- Grain: one row, of a served table without dates.
select
    min(_served_as) as first_stamp,
    max(_served_as) as last_stamp,
    count() as row_count
from {table:Identifier}
