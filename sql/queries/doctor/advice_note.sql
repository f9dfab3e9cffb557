-- advice_note: write down what was advised.
-- $1 queue, text; NULL: all   $2 share, float8   $3 within, microseconds, int8   $4 headroom, float8   $5 lines, text[]   $6 interval, microseconds, int8; 0: a service
-- $7 cnt, int8   $8 runners, int4   $9 how many lines, int4   $10, $11 waits of half of the jobs, of 95 %, microseconds, int8; NULL: some never began
-- $12 predicted, $13 bound, microseconds, int8   $14 attempts an hour, float8
-- returns one row: its number (int8)
-- locks: the new row, and those it takes the place of
select deferred.__advice_note($1::text, $2::float8, $3::int8, $4::float8, $5::text[], $6::int8, $7::int8, $8::int4, $9::int4, $10::int8, $11::int8, $12::int8, $13::int8, $14::float8)
