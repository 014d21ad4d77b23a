-- The doorbell, as far as both forms share it. The names and signatures below are the same in both forms:
--
--   baton_internal.ring_doorbell()                          statement trigger of every outbox
--   baton.doorbell_kind()                          how readers are woken here
--   baton.doorbell_value(outbox)                   a value that changes when events were committed
--   call baton.wait_for_events(outbox, since, timeout)   sleeps until the value differs from `since`
--   baton_internal.flush_wal_up_to(lsn)                     waits until the log is on disk up to there
--
-- A reader asks for the value, polls, and when it found nothing waits for another value; then nothing is lost between
-- its look and its sleep. It may wake for nothing. It keeps a slow poll, because a few commits ring nowhere: on a server that has no
-- room for the bells.

select baton_internal.declare_privileges('execute', '{baton_consumer,baton_relay,baton_operator}',
                                '{doorbell_kind,doorbell_value,wait_for_events,flush_wal_up_to}');
select baton_internal.declare_privileges('execute', '{baton_viewer}', '{doorbell_kind}');
select baton_internal.declare_privileges('execute', '{baton_operator}', '{ring_doorbell}');
