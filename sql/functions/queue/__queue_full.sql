-- key: of the new job, which may stand for a job that the queue holds already; NULL: none.
create or replace function deferred.__queue_full(q deferred.__deferred_queue,
                                                 key text) returns boolean
language plpgsql stable
as $$
#variable_conflict use_variable
begin
    if deferred.__queue_length(q.name, q.max_length) < q.max_length
       or exists (select from deferred.__deferred_hot h where h.queue = q.name and h.key = key)
       or exists (select from deferred.__key_holder(q.name, key)) then
        return false;
    end if;
    if q.on_full = 'drop' then return true; end if;
    raise exception using errcode = '53400',
        message = format('queue ''%s'' is full (max_length %s)', q.name, q.max_length),
        hint = 'defer again later, or raise max_length of the queue';
end
$$;
comment on function deferred.__queue_full is
    'whether a queue is full and drops new jobs; an error if it is full and refuses them';
