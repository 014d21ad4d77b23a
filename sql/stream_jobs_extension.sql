-- The worker hears of stream tables that are due sooner than it knows.

create trigger poke_scheduler after insert or update of schedule, paused on baton.stream_tables
    for each statement execute function baton_internal.poke_scheduler();
