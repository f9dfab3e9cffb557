-- Says why a call does not get its key, which p_holder holds. p_until is until when it does so
-- after its end. It is infinity if the job has not ended, and NULL if the job runs.
create or replace function deferred.__key_refuse(p_holder bigint, p_until timestamptz,
    p_queue text, p_key text, p_on_duplicate text) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if p_until < 'infinity' then
        raise exception using
            errcode = case p_on_duplicate when 'error' then '23505' else '55006' end,
            message = format('job %s of queue ''%s'' has ended and keeps key ''%s'' until %s',
                             p_holder, p_queue, p_key, date_trunc('seconds', p_until)),
            hint = 'defer again after that time, or use another key';
    elsif p_until is not null then
        raise exception using errcode = '23505',
            message = format('job %s of queue ''%s'' has key ''%s'' already',
                             p_holder, p_queue, p_key),
            hint = 'use another key, or on_duplicate skip, replace or update';
    end if;
    raise exception using errcode = '55006',
        message = format('job %s with key ''%s'' is running and cannot be %s', p_holder, p_key,
                         case p_on_duplicate when 'update' then 'updated' else 'replaced' end),
        hint = 'defer again when the job has ended, or use another key';
end
$$;
comment on function deferred.__key_refuse is 'part of deferred.__enqueue_key(): raises the error';
