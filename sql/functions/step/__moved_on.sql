-- True: this attempt has saved a new step of a function with progress_resets. So it does not count.
create or replace function deferred.__moved_on(p_id bigint, p_attempt integer) returns boolean
language sql stable
as $$
    select exists (select from deferred.__deferred_step s
                   where s.job_id = p_id and s.attempt = p_attempt and s.resets)
$$;
comment on function deferred.__moved_on is 'true: the attempt moved on, and does not count';
grant execute on function deferred.__moved_on to deferred_worker;
