create or replace function deferred.__message_last_id() returns bigint
language sql
as $$
    select case when s.is_called then s.last_value else 0 end from deferred.__deferred_id_seq s
$$;
comment on function deferred.__message_last_id() is 'the last id given out';
