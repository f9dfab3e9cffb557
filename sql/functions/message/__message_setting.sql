-- Two settings of a queue are part of its metadata, so that consumers can set them. Each has a
-- second name without "_", because proxies drop headers with "_". The metadata shows the name that
-- was used.
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
