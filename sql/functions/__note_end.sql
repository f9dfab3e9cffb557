-- Called for each watched job where its hot row is deleted, and so in the transaction that records its end, once. Returns what it is
-- given, so that it can stand for it in a RETURNING: jobs that nobody waits for cost a look at a flag of a row that is at hand.
create or replace function deferred.__note_end(p_id bigint, p_attempt integer, p_outcome text) returns integer
language plpgsql
as $$
begin
    insert into deferred.__deferred_ended (id, what)
    values (p_id, case p_outcome when 'ok' then 'o' when 'skipped' then 's' else 'f' end::"char");
    return p_attempt;
end
$$;
comment on function deferred.__note_end is 'notes that a job has ended for which others wait';
grant execute on function deferred.__note_end to deferred_worker;
