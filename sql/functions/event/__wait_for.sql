-- The options "after" and "wait_for" of a job as one list, which deferred.__enqueue() takes. Events
-- in it are objects with a member "event". The option "wait_for" is the name of an event, or an
-- object with its name, or a list of these.
create or replace function deferred.__wait_for(fn text, after jsonb, wait_for jsonb) returns json
language plpgsql immutable set search_path = pg_catalog, pg_temp
as $$
begin
    if fn is null then
        raise exception using errcode = '22023',
            message = 'option ''wait_for'' is not allowed for a message',
            hint = 'name a function, or leave the option out';
    end if;
    if jsonb_typeof(wait_for) <> 'array' then wait_for := jsonb_build_array(wait_for); end if;
    if jsonb_typeof(after) <> 'array' then after := jsonb_build_array(after); end if;
    if jsonb_array_length(wait_for) = 0 then
        raise exception using errcode = '22023', message = 'option ''wait_for'' names no event',
            hint = 'write "paid:4711", or a list of events, or leave the option out';
    end if;
    return coalesce(after, '[]') || (
        select jsonb_agg(case jsonb_typeof(i.item)
                         when 'object' then '{"event": null}' || i.item
                         else jsonb_build_object('event', i.item) end order by i.n)
        from jsonb_array_elements(wait_for) with ordinality i(item, n));
end
$$;
comment on function deferred.__wait_for is 'what a job waits for: jobs and events';
grant execute on function deferred.__wait_for to deferred_producer;
