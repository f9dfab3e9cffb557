-- Called once for each watched job where its hot row is deleted, and so in the transaction that
-- records its end. Returns its argument p_attempt, so that it can take its place in a RETURNING. A
-- job that no other job waits for costs one test of a flag in a row that is at hand.
--
-- The note concerns the jobs that wait by now: those with ids up to `upto`. A job that is deferred
-- later waits for what the job becomes, in case it is retried before the note is processed. A child
-- with a lower id whose transaction is still open left a note of its own. The first of the two
-- notes that is processed counts.
create or replace function deferred.__note_end(p_id bigint, p_attempt integer,
                                               p_outcome text) returns integer
language plpgsql
as $$
begin
    insert into deferred.__deferred_ended (id, what, upto)
    values (p_id, case p_outcome when 'ok' then 'o' when 'skipped' then 's'
                       when 'not needed' then 'n'
                           else 'f' end::"char",
                           pg_sequence_last_value('deferred.__deferred_id_seq'));
    return p_attempt;
end
$$;
comment on function deferred.__note_end is 'notes that a job has ended for which others wait';
grant execute on function deferred.__note_end to deferred_worker;
