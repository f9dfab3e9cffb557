-- The next cursor is a row with the next number. So under a held snapshot, which keeps the deleted
-- rows, the newest is found first.
create or replace function deferred.__lane_move(w deferred.__window) returns void
language plpgsql
as $$
declare
    c_last_seq constant bigint := 9223372036854775807;  -- only a forged row has it; 1 follows
begin
    if w.seq = c_last_seq then
        delete from deferred.__deferred_cursor p
        where p.queue = w.queue and p.priority = w.priority and p.seq = 1;
    end if;
    with gone as (
        delete from deferred.__deferred_cursor p
        where p.queue = w.queue and p.priority = w.priority and p.seq = w.seq)
    insert into deferred.__deferred_cursor (queue, priority, seq, done, cur, xid, id, rest_xid,
                                           rest_id)
    values (w.queue, w.priority, w.seq % c_last_seq + 1, w.done, w.cur, w.xid, w.id, w.rest_xid,
            w.rest_id);
end
$$;
grant execute on function deferred.__lane_move to deferred_worker;
