-- Begins a request of the JSON API. The token with this SHA-256, in hexadecimal digits, acts until
-- the end of the transaction, or until another request begins. Refuses what the token may not do.
create or replace function deferred.__api_begin(token text,
                                                op text) returns deferred.__deferred_token
language plpgsql
as $$
declare
    v_needs text[] := case when $2 in ('defer', 'batch') then '{defer}'
                           when $2 in ('update', 'cancel', 'event') then '{control,defer}'
                           when $2 = 'retry' then '{control}'
                           when $2 in ('queues', 'queue') then '{control,read}'
                           when $2 not in ('job', 'jobs') then '{work}' end;
    t deferred.__deferred_token;
begin
    perform set_config('deferred.token', '', true), set_config('deferred.token_reach', '', true);
    select f.name, f.may, f.functions, f.queues into t.name, t.may, t.functions, t.queues
    from deferred.__token_find(decode($1, 'hex')) f;
    if t.name is null then
        raise exception using errcode = '28000', message = 'the token is not valid';
    end if;
    if not t.may && v_needs then
        raise exception using errcode = '42501',
            message = format('token ''%s'' lacks the right ''%s''', t.name,
                             array_to_string(v_needs, ''' or ''')),
            hint = 'an administrator adds another token: deferred token add NAME --may RIGHTS';
    end if;
    perform set_config('deferred.token', 'token:' || t.name, true);
    return t;
end
$$;
