-- Refuses jobs that a token may not defer: job i has function fns[i] and queue queues[i].
create or replace function deferred.__api_may(t deferred.__deferred_token, fns text[],
                                              queues text[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_bad text;
begin
    if t.functions is null and t.queues is null then return; end if;
    select case when not deferred.__token_allows(t.functions, j.fn)
                then format('function ''%s''', left(j.fn, 200))
                else format('queue ''%s''', left(coalesce(j.queue, 'default'), 200)) end
    into v_bad
    from unnest($2, $3) j(fn, queue)
    where not deferred.__token_allows(t.functions, j.fn)
       or not deferred.__token_allows(t.queues, coalesce(j.queue, 'default')) limit 1;
    if found then
        raise exception using errcode = '42501',
            message = format('token ''%s'' may not use %s', t.name, v_bad),
            hint = 'an administrator adds a token for it: deferred token add NAME --functions '
                   'LIST --queues LIST';
    end if;
end
$$;
