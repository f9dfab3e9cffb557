-- job_turn_end: last of a claim in turn; lets the next one have it.
commit
