-- Limits how long this transaction waits for a lock; returns the limit it had. The end of a
-- transaction, or set_config() with what this returns, takes the setting back.
create or replace function deferred.__patience(p_most interval) returns text
language plpgsql
as $$
declare
    v_was text := current_setting('lock_timeout');
begin
    if v_was = '0' or v_was::interval > p_most then
        perform set_config('lock_timeout', extract(epoch from p_most) || 's', true);
    end if;
    return v_was;
end
$$;
