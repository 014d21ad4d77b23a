-- The worker hears of new and changed jobs.

-- Wake the scheduler when this transaction commits.
create function baton_internal.poke_scheduler()
returns trigger
language c
as 'MODULE_PATHNAME', 'baton_poke_scheduler';
comment on function baton_internal.poke_scheduler() is 'statement trigger: the scheduler looks at this database at commit';

create trigger poke_scheduler after insert or update of routine, every, enabled on baton.jobs
    for each statement execute function baton_internal.poke_scheduler();
