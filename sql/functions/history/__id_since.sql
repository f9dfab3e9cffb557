-- Jobs that were deferred since a time have ids above this; NULL: any time.
create or replace function deferred.__id_since(since timestamptz) returns bigint
language sql stable
as $$
    select case when since is null then 0
                else deferred.__fold_id(0, since - interval '1 minute') end
$$;
grant execute on function deferred.__id_since to deferred_viewer;
