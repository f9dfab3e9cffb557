-- Called for each watched job where its hot row is deleted, and so in the transaction that records
-- its end, once. Returns what it is given, so that it can stand for it in a RETURNING: jobs that
-- nobody waits for cost a look at a flag of a row that is at hand.
--
-- It is about those who wait by now, as far as their ids were given out. Who is deferred later
-- waits for what the job becomes, should somebody retry it before all are told. One with a lower
-- id, of a transaction that is open still, left a note of its own, and is told once, by whichever
-- of the two comes first.
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
