-- The jobs that come with baton.

insert into baton.jobs (name, routine, every, every_setting) values
    ('maintain outboxes', 'baton_internal.maintain_outboxes', '1 minute', 'outbox_drain_interval_seconds'),
    ('maintain inboxes', 'baton.run_inbox_maintenance', '1 minute', 'inbox_drain_interval_seconds'),
    ('maintain adopted outboxes', 'baton.run_adopted_maintenance', '1 minute', 'outbox_drain_interval_seconds'),
    ('watch the clock', 'baton_internal.watch_clock', '1 minute', null),
    ('maintain stream tables', 'baton_internal.maintain_streams', '10 minutes', null);

insert into baton.jobs (name, routine, every, work) values
    ('refresh stream tables', 'baton_internal.refresh_due_stream', '200 milliseconds', 'baton_internal.stream_work');

update baton.jobs set built_in = true;
