-- The tokens of a rate: attempts that may start now. They were counted at p_tokens_at, and have
-- grown since. NULL: there is no rate. A worker can store wrong values. Tokens below zero, and
-- tokens that were counted in the future, do not close a limit. The planner inlines this.
create or replace function deferred.__tokens(
    p_tokens double precision, p_tokens_at timestamptz, p_rate double precision,
    p_burst double precision, p_now timestamptz)
returns double precision
language sql stable parallel safe
as $$
    select case when p_rate is not null then
        least(p_burst, case when p_tokens is not null and p_tokens_at < p_now + interval '1 day'
            then greatest(0, p_tokens)
                 + greatest(0, extract(epoch from p_now - p_tokens_at))::double precision * p_rate
            else p_burst end)
        end
$$;
grant execute on function deferred.__tokens to deferred_worker, deferred_viewer;
