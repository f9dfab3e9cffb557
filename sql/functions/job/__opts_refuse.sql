-- Names the first option that deferred.__opts_ok() refuses. NULL: not given.
create or replace function deferred.__opts_refuse(label text, key text, run_at timestamptz,
    expires_at timestamptz, delay_ms bigint, expires_ms bigint, max_attempts integer,
    timeout_ms bigint, backoff_floor_ms bigint, backoff_ceiling_ms bigint,
    backoff_exponent double precision, priority integer default null,
    on_duplicate text default null, concurrency_key text default null,
    concurrency integer default null, key_until_ms bigint default null)
returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_most  constant bigint := 3155760000000;
    v_spans constant text := 'a time span of at most 36525d, and of at least 1ms except for a '
                             'delay';
    v_years constant text := 'a time in the years 1 to 9999';
    v_bad   record;
begin
    select o.name, o.value, o.takes into v_bad
    from (values ('label', length($1) > 1000, length($1) || ' characters',
                  'at most 1000 characters'),
                 ('key', length($2) not between 1 and 1000 or octet_length($2) > 2500,
                  length($2) || ' characters, ' || octet_length($2) || ' bytes',
                  '1 to 1000 characters, at most 2500 bytes'),
                 ('run_at', not (deferred.__time_ok($3) or $3 = '-infinity'), $3::text, v_years),
                 ('expires_at', not deferred.__time_ok($4), $4::text, v_years),
                 ('delay', $5 not between 0 and v_most, $5 || ' ms', v_spans),
                 ('expires', $6 not between 0 and v_most, $6 || ' ms', v_spans),
                 ('max_attempts', $7 < 1, $7::text, 'a number from 1 on'),
                 ('timeout', $8 not between 1 and v_most, $8 || ' ms', v_spans),
                 ('backoff_floor', $9 not between 1 and v_most, $9 || ' ms', v_spans),
                 ('backoff_ceiling', $10 not between 1 and v_most, $10 || ' ms', v_spans),
                 ('backoff_exponent', $11 not between 1 and 100, $11::text, '1 to 100'),
                 ('priority', $12 not between -32768 and 32767, $12::text,
                  '-32768 to 32767; jobs with a larger priority run earlier'),
                 ('concurrency_key', length($14) not between 1 and 1000,
                  length($14) || ' characters', '1 to 1000 characters'),
                 ('concurrency', $15 not between 1 and 10000, $15::text, '1 to 10000'),
                 ('key_until', $16 not between 0 and v_most, $16 || ' ms', v_spans)
         ) as o(name, bad, value, takes)
    where o.bad limit 1;
    if found then
        raise exception using errcode = '22003',
            message = format('option ''%s'' is out of range: %s', v_bad.name, v_bad.value),
            hint = 'use ' || v_bad.takes;
    elsif $13 not in ('skip', 'error', 'replace', 'update') then
        raise exception using errcode = '22023',
            message = format('option ''on_duplicate'' has the invalid value ''%s''',
                             left($13, 200)),
            hint = 'use skip, error, replace or update';
    elsif $14 is null and $15 is not null then
        raise exception using errcode = '22003',
            message = format('option ''concurrency'' is %s, but ''concurrency_key'' is missing',
                             $15),
            hint = 'name the key that the jobs share';
    elsif $2 is null and $16 is not null then
        raise exception using errcode = '22023',
            message = 'option ''key_until'' is given, but ''key'' is missing',
            hint = 'name the key, or leave key_until out';
    end if;
end
$$;
comment on function deferred.__opts_refuse is
    'raises which option of a job is out of range, if one is';
