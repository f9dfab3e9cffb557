-- The answer that a request with this key got before. NULL: there was none in the last 24 hours.
create or replace function deferred.__api_answered(token text, key text, hash bytea) returns text
language plpgsql set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    k deferred.__deferred_idempotency;
begin
    select * into k from deferred.__deferred_idempotency x
    where x.token = token and x.key = key;
    if k.kept_until <= clock_timestamp() then
        delete from deferred.__deferred_idempotency x
        where x.token = token and x.key = key and x.kept_until <= clock_timestamp();
        return null;
    elsif k.hash <> hash then
        raise exception using errcode = '22023',
            message = format('another request had the Idempotency-Key ''%s''', key),
            hint = 'use a new key for each request, and repeat a request unchanged';
    end if;
    return k.answer;
end
$$;
