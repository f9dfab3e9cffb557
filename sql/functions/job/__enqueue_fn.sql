-- A job without a function is a message: a call to the function its queue is bound to, if any.
create or replace function deferred.__enqueue_fn(fn text, params json, queue text,
                                                 concurrency_key text, link text) returns text
language plpgsql stable
as $$
#variable_conflict use_variable
begin
    if fn is null and queue is null then
        raise exception using errcode = '22023', message = 'the function is missing',
            hint = 'name a function; only a message has none, and needs a queue';
    end if;
    if fn is null and link is not null then
        raise exception using errcode = '22023',
            message = format('option ''%s'' is not allowed for a message', link),
            hint = 'name a function, or leave the option out';
    end if;
    fn := coalesce(fn, (select q.fn from deferred.__deferred_queue q where q.name = queue));
    if fn is not null then
        perform deferred.__name_check('function', fn);
    elsif concurrency_key is not null then
        raise exception using errcode = '22023',
            message = 'option ''concurrency_key'' is not allowed for a message',
            hint = 'concurrency keys are for calls; set max_running of the queue to limit '
                   'how many messages are claimed at once';
    end if;
    if params is null then
        raise exception using errcode = '22004',
            message = format('params of function ''%s'' are NULL', fn),
            hint = 'pass ''{}'' for a call without params';
    end if;
    return fn;
end
$$;
comment on function deferred.__enqueue_fn is
    'part of deferred.__enqueue(): the function of a job that names none, or an error';
