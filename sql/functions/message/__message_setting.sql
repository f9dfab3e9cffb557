-- What consumers see as metadata of a queue holds two settings too, so that they can be set from
-- there. Each has a name without "_" as well, for proxies drop headers that have one; it is shown
-- as it was set.
create or replace function deferred.__message_setting(name text) returns text
language sql immutable
as $$
    select case lower($1) when 'deferred_function' then 'deferredfunction'
                when 'deferred_max_dequeue' then 'deferredmaxdequeue'
                          when 'deferredfunction' then 'deferredfunction'
                              when 'deferredmaxdequeue' then 'deferredmaxdequeue' end
$$;
comment on function deferred.__message_setting(text) is
    'which of the two settings a name of metadata stands for; NULL: none';
