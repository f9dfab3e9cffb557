-- doctor_tokens: tokens of the JSON API that expire within 14 days, or expired in the last 14 days.
-- params: none
-- returns: token text, left_s int8
-- Rows: at most 20, the first to expire first. Column left_s: seconds until then; below 0: since.
-- Locks: none. All of __deferred_token, which is short.
select t.name as token, extract(epoch from t.expires_at - clock_timestamp())::int8 as left_s
from deferred.__deferred_token t
where t.expires_at < clock_timestamp() + interval '14 days'
  and t.expires_at > clock_timestamp() - interval '14 days'
order by t.expires_at limit 20
