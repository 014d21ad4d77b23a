-- The time of the query in a condition is followed: rows enter and leave as it passes. Each statement is a transaction of its own, so that the time is another one
-- for each refresh; the table has rows for every five milliseconds of some minutes.
select no_plan();
update baton.jobs set enabled = false;  -- nobody else refreshes
create schema shop;
create table shop.calls (id int, line int, at timestamptz, day date);
create index on shop.calls (at);
insert into shop.calls select n, n % 5, now() + n * interval '5 ms', current_date + n / 1000 from generate_series(-1000, 40000) n;
insert into shop.calls values (1000001, 1, null, null);
create table shop.lines (id int primary key, patience interval);
insert into shop.lines select n, n * interval '3 ms' from generate_series(0, 4) n;

create table shop.queries (number serial, query text);
insert into shop.queries (query) values
    ('select id, line from shop.calls where at > now() - interval ''5 s'' and at <= current_timestamp'),
    ('select line, count(*) as n, max(id) as last from shop.calls where at < now() group by line'),
    ('select l.id, c.id as call from shop.calls c join shop.lines l on l.id = c.line where c.at + l.patience < now() and c.at > now() - interval ''1 s'''),
    ('select l.id, (select count(*) from shop.calls c where c.line = l.id and c.at between now() - interval ''1 s'' and now()) as n from shop.lines l'),
    ('select id from shop.lines l where exists (select from shop.calls c where c.line = l.id and c.at > now() - interval ''20 ms'' and c.at < now())'),
    ('select id from shop.calls where day = current_date and id % 1000 = 0 or day is null and localtimestamp > ''2020-01-01''');
\ir fixtures/stream_queries.sql
select count(*) as before from s2 where n > 0 \gset
select max(last) as last from s2 \gset
select is_empty('select shop.refreshed()', 'the time has passed');
select ok(max(last) > :last, 'rows entered, and no table was written to') from s2;
select is_empty('select shop.refreshed()', 'it has passed again');
insert into shop.calls select n, 1, now() - n * interval '1 ms', current_date from generate_series(1, 300) n;
delete from shop.calls where id % 7 = 0;
update shop.lines set patience = patience + interval '1 ms';
select is_empty('select shop.refreshed()', 'and rows have changed');
begin;
select is_empty('select shop.refreshed()', 'twice at the same time');
delete from shop.calls where id % 7 = 1;
select is_empty('select shop.refreshed()', 'with changes in between');
commit;
delete from shop.calls;
select is_empty('select shop.refreshed()', 'nothing is left');

-- The time elsewhere, and what is another value at every look, cannot be followed.
select form = 'extension' as is_extension from baton.installation \gset
\if :is_extension
select throws_ok(format('select baton.create_stream_table(%L, %L, null, %L)', 'refused', v.query, 'DIFFERENTIAL'), '0A000', 'stream table public.refused cannot be refreshed differentially: ' || v.reason, v.query)
  from (values ('select id, now() - at as age from shop.calls', 'the time of the query is used elsewhere than in a condition of WHERE or an inner join'),
               ('select line, count(*) as n from shop.calls group by line having max(at) < now()', 'the time of the query is used elsewhere than in a condition of WHERE or an inner join'),
               ('select l.id, c.id as call from shop.lines l left join shop.calls c on c.line = l.id and c.at < now()', 'the time of the query is used elsewhere than in a condition of WHERE or an inner join'),
               ('select id from shop.calls where at < clock_timestamp()', 'clock_timestamp() may give another result when no row has changed'),
               ('select id from shop.calls where at < statement_timestamp()', 'statement_timestamp() may give another result when no row has changed'),
               ('select id from shop.calls where random() < 0.5', 'random() may give another result when no row has changed')) v (query, reason);
select baton.create_stream_table('ages', 'select id, now() - at as age from shop.calls', null);
select is(effective_mode, 'FULL', 'AUTO computes them in full') from baton.stream_table_status('ages');

-- A look that finds that the time has changed nothing writes nothing.
create table shop.offers (id int primary key, until timestamptz);
insert into shop.offers values (1, 'infinity'), (2, '-infinity');
select baton.create_stream_table('valid', 'select id from shop.offers where until > now()', 'live');
create function pg_temp.version() returns text language sql as $$ select concat_ws(' ', s.ctid, s.xmin) from baton.stream_tables s where s.relation = 'valid'::regclass $$;
select baton.refresh_stream_table('valid');
select pg_temp.version() as version \gset
select is((select mode from baton.refresh_stream_table('valid')), 'DIFFERENTIAL', 'the time passes');
select is(baton_internal.is_idle((select stream_id from baton.stream_tables where relation = 'valid'::regclass)), true, 'also for the scheduler');
select is(pg_temp.version(), :'version', 'and nothing is written');
insert into shop.offers values (3, clock_timestamp() + interval '50 ms'), (4, clock_timestamp() - interval '1 day');
select is((select inserted from baton.refresh_stream_table('valid')), 1::bigint, 'a change is followed');
do $$ begin
    while clock_timestamp() <= (select until from shop.offers where id = 3) loop
        perform pg_sleep(0.01);
    end loop;
end $$;
select is((select deleted from baton.refresh_stream_table('valid')), 1::bigint, 'and what the time takes out');
delete from shop.offers where id > 2;
select baton.refresh_stream_table('valid');
update baton.stream_tables set frontier_time = now() - interval '2 minutes' where relation = 'valid'::regclass;
select pg_temp.version() as version \gset
select baton.refresh_stream_table('valid');
select isnt(pg_temp.version(), :'version', 'once a minute the refresh notes how far the time is');
\endif
select * from finish();
