-- job_turn_begin: first of a claim in turn. LOCK TABLE wants a transaction that was begun in so many words.
begin
