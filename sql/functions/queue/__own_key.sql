-- Otherwise a role that guesses the key of another role could swallow its jobs, or hold them up for
-- ever. The length says where the name ends. Without its cast the planner would not put the
-- expression in the place of the call, which costs as much as storing the job.
create or replace function deferred.__own_key(owner text, key text) returns text
language sql immutable
as $$
    select case when $2 is not null then length($1)::text || ':' || $1 || ':' || $2 end
$$;
comment on function deferred.__own_key(text, text) is
    'key of a job, or concurrency key, that only jobs deferred by the same role share; NULL: none';
grant execute on function deferred.__own_key(text, text) to deferred_worker;
