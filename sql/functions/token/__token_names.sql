-- Checks names of functions or queues for a token, as kind says, and sorts them. NULL: any.
create or replace function deferred.__token_names(token text, kind text, names text[])
returns text[]
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if cardinality($3) not between 1 and 1000 then
        raise exception using errcode = '22023',
            message = format('token ''%s'': %s names of %ss were given', $1, cardinality($3), $2),
            hint = 'give 1 to 1000 names, or leave the list out to allow any';
    end if;
    perform deferred.__name_check($2, regexp_replace(n, '[.][*]$', '')) from unnest($3) n;
    return case when $3 is not null
                then array(select distinct n collate "C" from unnest($3) n order by 1) end;
end
$$;
