-- With finish(), extend() and release() these are all a consumer needs.
create or replace function deferred.claim(queue text, n integer default 1,
                                          lease_ms bigint default 30000)
returns table (id bigint, receipt bigint, attempt integer, params json, created_at timestamptz,
               expires_at timestamptz, visible_at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    if $2 is null or $2 not between 1 and 1000 or $3 is null or $3 not between 1 and 604800000 then
        raise exception using errcode = '22003',
            message = case when $2 between 1 and 1000
                           then format('lease of %s ms is out of range', coalesce($3::text, 'NULL'))
                           else format('claim of %s messages is out of range',
                                       coalesce($2::text, 'NULL')) end,
            hint = 'claim 1 to 1000 messages for 1 to 604800000 ms (7 days)';
    end if;
    if not exists (select from deferred.__deferred_queue q
                   where q.name = $1 and q.removed_at is null) then
        raise exception using errcode = '42704',
            message = format('queue ''%s'' does not exist', left($1, 200)),
            hint = 'the first job deferred to a queue adds it, or: deferred queue set NAME '
                   '--create';
    end if;
    return query
    select m.id, m.receipt, m.attempt, m.params, m.inserted_at, m.expires_at, m.visible_at
    from deferred.__message_get(array[$1], array[$2], array[$3]) m where m.id is not null;
end
$$;
comment on function deferred.claim(text, integer, bigint) is
    'take visible messages of a queue, which nobody else is given for so long; each is finished, '
    'extended or released by its id and receipt';
grant execute on function deferred.claim(text, integer, bigint) to deferred_http, deferred_worker;
