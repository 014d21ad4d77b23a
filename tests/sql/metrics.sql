-- What relays ask for their metrics.
select no_plan();
update baton.jobs set enabled = false;

-- who tells of a group
select baton.create_outbox('log', retention => '1 second');
select baton.create_consumer_group('owned', 'log', 'earliest'), baton.create_consumer_group('free', 'log', 'earliest'), baton.create_consumer_group('left', 'log', 'earliest');
select baton.create_consumer_group(e'a "name"\\ with\nlines', 'log', 'earliest');
insert into log (event_type, aggregate_id) select 't', i::text from generate_series(1, 10) i;
select ok((baton_internal.take_group('owned', 'relay one', '1 hour')).epoch is not null, 'a relay owns a group');
select ok((baton_internal.take_group('left', 'relay two', '1 millisecond')).epoch is not null, 'another one has owned one');
select pg_sleep(0.01);
select is(array(select group_name from baton_internal.tell_groups('relay one', false) order by 1), '{owned}', 'the owner tells of its group');
select is(array(select group_name from baton_internal.tell_groups('relay two', false) order by 1), '{}', 'and nobody else');
select is(array(select group_name from baton_internal.tell_groups('relay two', true) order by 1), array[e'a "name"\\ with\nlines', 'free', 'left'],
          'the leader tells of those that nobody owns');
select is(array(select group_name from baton_internal.tell_groups('relay one', true) order by 1), array[e'a "name"\\ with\nlines', 'free', 'left', 'owned'], 'and of its own');

-- what is told of a group
select is((select count(*)::int from baton.poll_outbox('free', 'c', 4)), 4, 'four are read');
select is((select count(*)::int from baton.fail_events('free', 'c', '{1}', 'no')), 1, 'one fails');
select is((select count(*)::int from baton.fail_events('free', 'c', '{2}', 'never', true)), 1, 'one dies');
select is((select (lag_events, dead_letters, parked_events, most_attempts, leases, consumers, unhealthy_consumers)::text
             from baton_internal.tell_groups('x', true) where group_name = 'free'), '(9,1,1,1,1,1,0)', 'lag, dead letters, parked events, attempts, leases and consumers');
select ok((select lag_seconds > 0 from baton_internal.tell_groups('x', true) where group_name = 'free'), 'and the age of the oldest');

select baton.create_outbox('many');
select baton.create_consumer_group('far', 'many', 'earliest');
insert into many (event_type) select 't' from generate_series(1, 1500);
select is((select lag_events from baton_internal.tell_groups('x', true) where group_name = 'far'), 1500::float8, 'a large lag comes from the ids');
select is((select count(*)::int from baton.poll_outbox('far', 'c', 300)), 300, 'some are read');
select baton.commit_offset('far', 'c', 300);
select is((select lag_events from baton_internal.tell_groups('x', true) where group_name = 'far'), 1200::float8, 'and less when some are settled');
select baton.seek_offset('far', 'c', null);
insert into many (event_type) select 't' from generate_series(1, 2000);
select is((select lag_events from baton_internal.tell_groups('x', true) where group_name = 'far'), 2000::float8, 'and after a seek');
select baton.drop_consumer_group('far'), baton.drop_outbox('many');

-- what is told of an outbox
call baton.run_maintenance();
select is((select (published, partitions_ahead, retention_overdue, maintenance_failing, storage_critical, publishers)::text from baton_internal.tell_outboxes()),
          '(10,2,0,0,0,0)', 'an outbox in order');
-- what nobody has told the catalog: the log has gone on by itself, or the tables are gone
select pg_sequence_last_value(pg_get_serial_sequence('log', 'id')::regclass) as last_id \gset
begin;
select setval(pg_get_serial_sequence('log', 'id'), (select p.first_id - 1 from baton_internal.outbox_partitions p where p.state in ('new', 'ahead') order by 1 limit 1));
select is((select partitions_ahead from baton_internal.tell_outboxes()), 2::float8, 'the last id of a partition is drawn, and two follow');
select nextval(pg_get_serial_sequence('log', 'id'));
select is((select partitions_ahead from baton_internal.tell_outboxes()), 1::float8, 'the log has reached the next one, though nobody has written that down');
select setval(pg_get_serial_sequence('log', 'id'), (select max(p.first_id) from baton_internal.outbox_partitions p));
select is((select partitions_ahead from baton_internal.tell_outboxes()), 0::float8, 'and the last one');
rollback;
select setval(pg_get_serial_sequence('log', 'id'), :last_id);
begin;
do $$ declare p record; begin for p in select * from baton_internal.outbox_partitions where state in ('new', 'ahead') loop execute format('drop table %s', p.relation); end loop; end $$;
select is((select partitions_ahead from baton_internal.tell_outboxes()), 0::float8, 'tables that somebody has dropped are not there');
rollback;
update baton.outboxes set partition_interval = '1 microsecond';
call baton.run_maintenance();
call baton.run_maintenance();
select is((select published from baton_internal.tell_outboxes()), 10::float8, 'what was published is the same when the log goes on to another partition');
select is((select row_estimate from baton.outbox_status('log')), 10::bigint, 'and so is the number of rows');
insert into log (event_type) values ('t');
select is((select published from baton_internal.tell_outboxes()), 11::float8, 'one more is one more');
select is((select count(*)::int from baton.retention_blocked), 0, 'a partition that is young blocks nothing');
update baton_internal.outbox_partitions set since = since - interval '1 hour' where state = 'left';
select is((select array_agg(group_name order by group_name) from baton.retention_blocked), array[e'a "name"\\ with\nlines', 'free', 'left', 'owned'], 'one that is old is kept for groups');
select ok((select bool_and(outbox = 'public.log' and blocked_for between '59 minutes' and '2 hours' and bytes > 0) from baton.retention_blocked), 'for an hour');
select ok((select retention_overdue between 3500 and 7200 from baton_internal.tell_outboxes()), 'which is told');
select baton.seek_offset(group_name, 'c', null) from baton.consumer_groups;
select is((select count(*)::int from baton.retention_blocked), 0, 'nobody blocks it who has settled it');
call baton.run_maintenance('log');
select is((select count(*)::int from baton_internal.outbox_partitions where state in ('left', 'detached') and since < now() - interval '30 minutes'), 0, 'it goes');
select ok((select published >= 11 from baton_internal.tell_outboxes()), 'what was published stays published');
select is((select retention_overdue from baton_internal.tell_outboxes()), 0::float8, 'and nothing is overdue');
update baton.outboxes set maintenance_error = 'boom';
select baton.set_setting('outbox_storage_critical_mb', '0');
select is((select (maintenance_failing, storage_critical)::text from baton_internal.tell_outboxes()), '(1,1)', 'trouble is told');
select baton.set_setting('outbox_storage_critical_mb', '1024');
begin;
insert into log (event_type) values ('t');
select is((select (publishers, oldest_publisher > 0)::text from baton_internal.tell_outboxes()), '(1,t)', 'a transaction that has published is told');
rollback;

-- inboxes
select baton.create_inbox('plain_in'), baton.create_inbox('ordered_in'), baton.create_inbox('broken_in');
select baton.enable_inbox_ordering('ordered_in', 'aggregate_id', 'sequence_num');
select baton.receive('plain_in', 'm' || i, 't', '{}') from generate_series(1, 3) i;
select baton.receive('ordered_in', 'a3', 't', '{}', aggregate_id => 'a', sequence_num => 3);
select baton.receive_malformed('plain_in', 'bad', '\x00', 'unreadable');
drop table broken_in cascade;
select is((select array_agg((inbox, readable, pending, dead_letters, gaps, stalled, unhandled)::text order by inbox) from baton_internal.tell_inboxes()),
          '{"(public.broken_in,0,,,,,)","(public.ordered_in,1,1,0,1,1,0)","(public.plain_in,1,3,1,0,0,0)"}', 'inboxes: depth, dead letters and gaps; one that is gone hides no other');
select ok((select oldest_pending >= 0 and oldest_gap >= 0 from baton_internal.tell_inboxes() where inbox = 'public.ordered_in'), 'with their ages');

-- stream tables
create table goods (id int primary key, price int);
select baton.create_stream_table('cheap', 'select id, price from goods where price < 10', schedule => '1h');
select is((select (overdue, failed_in_a_row, stopped, paused)::text from baton_internal.tell_streams()), '(0,0,0,0)', 'a stream table that has nothing to do is not late')
  from (select baton.refresh_stream_table('cheap')) done;
update baton.stream_tables set next_due = clock_timestamp() - interval '1 hour';
begin;  -- so that the server's own worker does not run the job
update baton.jobs set enabled = true, next_due = clock_timestamp() - interval '1 hour' where name = 'refresh stream tables';
select is((select (s.overdue > 0, j.overdue > 0)::text from baton_internal.tell_streams() s, baton_internal.tell_jobs() j),
          (select (s.effective_mode = 'FULL', s.effective_mode = 'FULL')::text from baton.stream_tables s),
          'nor is one that rests until something changes, nor the job, as far as that can be known');
rollback;
insert into goods values (1, 1);
begin;
update baton.jobs set enabled = true, next_due = clock_timestamp() - interval '1 hour' where name = 'refresh stream tables';
select ok((select overdue between 3500 and 3700 from baton_internal.tell_streams()), 'one that has something to do and is not refreshed is');
select ok((select overdue between 3500 and 3700 from baton_internal.tell_jobs()), 'and so is the job');
rollback;
update baton.stream_tables set stopped_at = now(), failed_in_a_row = 10;
select is((select (overdue, failed_in_a_row, stopped)::text from baton_internal.tell_streams()), '(0,10,1)', 'so is one that was given up');

-- jobs
insert into baton.jobs (name, routine, every) values ('works', 'public.works', '1 hour'), ('fails', 'public.fails', '1 hour'), ('waits', 'public.works', '1 hour');
create function works() returns void language sql as 'select';
create function fails() returns void language plpgsql as 'begin raise ''no''; end';
begin;  -- before the server's own worker comes
update baton.jobs set next_due = clock_timestamp() - interval '1 hour' where name = 'waits';
update baton.jobs set last_success = now() - interval '1 day' where name = 'fails';
select ok((select overdue between 3500 and 3700 from baton_internal.tell_jobs() where job = 'waits'), 'a job that nobody runs is overdue');
select ok((select overdue > 0 and last_success is null from baton_internal.tell_jobs() where job = 'works'), 'so is one that never ran');
select is((select count(*)::int from (select baton_internal.run_due_job() from generate_series(1, 3)) r), 3, 'they run');
select is((select array_agg((job, runs, failures, failed_in_a_row, overdue, running)::text order by job) from baton_internal.tell_jobs()),
          '{"(fails,1,1,1,0,0)","(waits,1,0,0,0,0)","(works,1,0,0,0,0)"}', 'runs and failures are told');
select ok((select extract(epoch from now()) - last_success between -60 and 60 from baton_internal.tell_jobs() where job = 'works'), 'and when one ended well');
select ok((select extract(epoch from now()) - last_success between 86300 and 86500 from baton_internal.tell_jobs() where job = 'fails'), 'which a failure does not');
update baton.jobs set enabled = false;
commit;
select is((select count(*)::int from baton_internal.tell_jobs()), 0, 'of jobs that are switched off nothing is told');

-- transactions, and who leads
select ok((select oldest >= 0 from baton_internal.tell_transactions()), 'the oldest transaction');
select is(baton_internal.take_lead('one', duty => 'jobs'), true, 'one relay runs the jobs');
select is(baton_internal.take_lead('two', duty => 'metrics'), true, 'and another tells of the database');
select is(baton_internal.take_lead('one', duty => 'metrics'), false, 'one alone');
select baton_internal.leave_lead('two');
select is(baton_internal.take_lead('one', duty => 'metrics'), true, 'until it leaves');
select throws_ok($$ select baton_internal.take_lead('one', duty => 'other') $$, '23514', null, 'there are two duties');

select * from finish();
