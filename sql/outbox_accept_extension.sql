-- The sieve before the judge: ordinary events pass at the cost of a look.

create function baton_internal.sift_event()
returns trigger
language c
as 'MODULE_PATHNAME', 'baton_sift_event';
comment on function baton_internal.sift_event() is 'row trigger of an outbox: lets ordinary events pass, asks judge_event() about others';
