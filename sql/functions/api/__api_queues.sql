-- GET /v1/queues, or one queue: depth, age of the oldest ready job, and limits.
create or replace function deferred.__api_queues(t deferred.__deferred_token,
                                                 queue text) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    v_queues json;
begin
    select json_agg(x order by x.queue) into v_queues
    from (select d.queue, d.paused, d.ready, d.claimed, d.delayed, d.oldest_ready_s,
                 d.ready_more or d.delayed_more as more, q.max_running, q.rate, q.burst,
                 q.max_length, q.on_full, q.max_attempts, q.params_max_bytes
          from deferred.__depths(10000) d join deferred.__deferred_queue q on q.name = d.queue
          where (queue is null or d.queue = queue)
            and deferred.__token_allows(t.queues, d.queue)) x;
    if queue is not null and v_queues is null then
        raise exception using errcode = '42704',
            message = format('queue ''%s'' does not exist', left(queue, 200)),
            hint = 'the first job deferred to a queue adds it';
    end if;
    return case when queue is null then json_build_object('queues', coalesce(v_queues, '[]'))
                else v_queues->0 end;
end
$$;
