-- Ids that come out of turn: made up, drawn long before, handed out again. Whatever is taken is delivered (sql/floors.sql).
select no_plan();
update baton.jobs set enabled = false;
select baton.create_outbox('events'), baton.create_consumer_group('g', 'events', 'earliest');

-- Poll until nothing comes, and settle; which events came.
create procedure drain(inout got text) language plpgsql as $$
declare
    ids bigint[];
    token uuid;
begin
    loop
        select array_agg(p.id), (array_agg(p.lease_token))[1] into ids, token from baton.poll_outbox('g', 'c', 50) p;
        exit when ids is null;
        commit;
        perform baton.commit_offset('g', 'c', max(q.upto_id), token) from baton_internal.pieces q where q.lease_token = token;
        commit;
        got := concat_ws(',', got, array_to_string(ids, ','));
    end loop;
end $$;
create table came (got text);
create procedure note_what_comes() language plpgsql as $$
declare
    got text;
begin
    call drain(got);
    delete from came;
    insert into came values (got);
end $$;
create function mark() returns bigint language sql as $$ select pg_sequence_last_value(to_regclass('baton_internal.floor_1')) $$;
create function strays() returns text language sql as $$ select string_agg(id::text, ',' order by id) from baton_internal.stray_events $$;
create function insert_as(wanted bigint) returns void language sql as
$$ insert into events (id, event_type, partition_key) overriding system value values (wanted, 'own', wanted::text) $$;

select is(mark(), 0::bigint, 'the mark begins below all ids');
begin;
insert into events (event_type) select 'lost' from generate_series(1, 40);  -- ids 1 to 40 that nobody has
rollback;
insert into events (event_type) select 'e' from generate_series(41, 300);
call note_what_comes();
insert into events (event_type) values ('e');
call note_what_comes();
select is((select got from came), '301', 'the log is read');
select ok(mark() between 300 and 301, 'readers have raised the mark');
select ok((select fresh_id >= 300 from baton_internal.group_positions), 'and the group has a floor there');
select is(strays(), null, 'nothing of that was out of turn');

-- made up, below the mark
select insert_as(7);
select is(strays(), '7', 'an id below the mark is written down');
call note_what_comes();
select is((select got from came), '7', 'and delivered');
begin;
select insert_as(8);
savepoint s;
select insert_as(9);
rollback to s;
select insert_as(10);
insert into events (event_type) values ('e');
commit;
begin;
select insert_as(11);
rollback;
select is(strays(), '7,8,10', 'what is rolled back is no stray');
call note_what_comes();
select is((select got from came), '8,10,302', 'what is committed comes, with the others');
copy events (id, event_type, partition_key) from stdin;
12	own	c
13	own	c
\.
select insert_as(14) from baton.publish('events', 'e', '{}', idempotency_key => 'k');
insert into events (id, event_type, idempotency_key) overriding system value values (15, 'own', 'k2');
insert into events_p1 (id, event_type) overriding system value values (16, 'own');  -- since PostgreSQL 17 a partition has the identity, too
call note_what_comes();
select is((select got from came), '12,13,14,15,16,303', 'by COPY, with a key, into a partition');

-- a transaction that was running while the group moved on, and then takes a low id
begin;
insert into events (event_type) values ('own');  -- 304
prepare transaction 'late';
insert into events (event_type) select 'e' from generate_series(305, 500);
call note_what_comes();
insert into events (event_type) values ('e');  -- 501
call note_what_comes();
select ok(mark() >= 500, 'the mark is above what runs');
commit prepared 'late';
call note_what_comes();
select is((select got from came), '304', 'an event that commits late is found, below the mark');
begin;
select insert_as(17);
prepare transaction 'late';
insert into events (event_type) select 'e' from generate_series(502, 700);
call note_what_comes();
insert into events (event_type) values ('e');  -- 701
call note_what_comes();
insert into events (event_type) values ('e');  -- 702
call note_what_comes();
commit prepared 'late';
call note_what_comes();
select is((select got from came), '17', 'a stray that commits late too');

-- ids that are handed out again: somebody has moved the sequence back
select setval('events_id_seq', 20);
insert into events (event_type) select 'again' from generate_series(1, 5);
select setval('events_id_seq', 702);
insert into events (event_type) values ('e');  -- 703
call note_what_comes();
select is((select got from came), '21,22,23,24,25,703', 'what was published meanwhile is delivered');

-- ids before the transaction's own: this form evaluates the ids first
insert into events (id, event_type) values (default, 'e'), (default, 'e');
call note_what_comes();
select is((select got from came), '704,705', 'ids that are asked for are as good');

-- an event whose expressions publish others
create function publish_another() returns jsonb language sql as $$ insert into events (event_type) values ('inner') returning to_jsonb(id) $$;
insert into events (event_type, payload) select 'outer', publish_another() from generate_series(1, 3);
call note_what_comes();
select is((select got from came), '706,707,708,709,710,711', 'nothing is wrong with them');

-- the list is short-lived
select ok(count(*) > 10, 'strays are listed') from baton_internal.stray_events;
select baton.alter_outbox('events', retention => '0 s', partition_interval => '1 us');
call baton.run_maintenance('events');
call baton.run_maintenance('events');
call baton.run_maintenance('events');
select is((select min(id) from events), null, 'when the partition goes ...');
select is(strays(), null, '... they go as well');
select baton.drop_outbox('events', cascade => true);
select is(to_regclass('baton_internal.floor_1'), null, 'the mark goes with the outbox');
select * from finish();
