-- token_ls: all tokens of the JSON API.
-- params: none
-- returns: token text, may text, functions text, queues text, expires text, json text
-- Rows: by name. Names have commas between them. Column expires: when, or expired.
-- Locks: none
select t.name as token, array_to_string(t.may, ',') as may,
       coalesce(array_to_string(t.functions, ','), 'any') as functions,
       coalesce(array_to_string(t.queues, ','), 'any') as queues,
       case when t.expires_at <= clock_timestamp() then 'expired'
            else coalesce(to_char(t.expires_at, 'YYYY-MM-DD HH24:MI:SS TZH:TZM'), 'never')
            end as expires,
       json_build_object('token', t.name, 'may', t.may, 'functions', t.functions,
                         'queues', t.queues, 'created_at', t.created_at,
                         'created_by', t.created_by, 'rotated_at', t.rotated_at,
                         'old_until', t.old_until, 'expires_at', t.expires_at,
                         'expired', coalesce(t.expires_at <= clock_timestamp(), false))::text
           as json
from deferred.__deferred_token t order by t.name
