-- When stream tables are due: durations, and cron expressions with all their oddities.
select no_plan();
set timezone = 'UTC';
create function cron(expression text, after timestamptz) returns text language sql as $$ select to_char(baton_internal.next_cron(expression, after), 'YYYY-MM-DD HH24:MI') $$;
select is(cron(e, '2026-11-16 12:34:56+00'), w, e) from (values  -- a Monday
    ('* * * * *', '2026-11-16 12:35'), ('*/15 * * * *', '2026-11-16 12:45'), ('34 12 * * *', '2026-11-17 12:34'), ('0 0 1 1 *', '2027-01-01 00:00'),
    ('0 3 * * mon-fri', '2026-11-17 03:00'), ('0 3 * * 6,7', '2026-11-21 03:00'), ('0 3 * * sun', '2026-11-22 03:00'), ('0 3 * * 0', '2026-11-22 03:00'), ('0 3 * * 7', '2026-11-22 03:00'),
    ('5,10-12,50/5 13 * * *', '2026-11-16 13:05'), ('50/5 12 * * *', '2026-11-16 12:50'), ('10-30/10 * * * *', '2026-11-16 13:10'), ('0 12 29 feb *', '2028-02-29 12:00'),
    ('0 0 31 * *', '2026-12-31 00:00'), ('0 0 31 4,6,9,11,12 *', '2026-12-31 00:00'), ('0 0 13 * fri', '2026-11-20 00:00'), ('0 0 */2 * fri', '2026-11-27 00:00'),
    ('59 23 31 12 *', '2026-12-31 23:59'), ('  0   4  *  DEC   Mon ', '2026-12-07 04:00')) c (e, w);
select is(cron('30 * * * *', '2026-11-16 12:30:00+00'), '2026-11-16 13:30', 'a moment is not after itself');
select is(cron('30 * * * *', '2026-11-16 12:29:59.999999+00'), '2026-11-16 12:30', 'however little before counts');
select is(cron(e, now()), null, e || ' is never') from unnest('{0 0 30 2 *,0 0 31 4 *}'::text[]) e;
select is((baton_internal.parse_cron(e)).minutes, null, '"' || e || '" is no cron expression')
  from unnest(array['', '* * * *', '* * * * * *', '60 * * * *', '* 24 * * *', '* * 0 * *', '* * 32 * *', '* * * 13 *', '* * * * 8', '*/0 * * * *', '5-1 * * * *', '-1 * * * *', '1,,2 * * * *', 'a * * * *',
                    '* * * foo *', '1.5 * * * *', '*5 * * * *', '99999999999 * * * *', '1- * * * *', '* * * * mon-']) e;
-- changes of clocks: an hour that is left out, and one that comes twice
set timezone = 'Europe/Berlin';
select is(baton_internal.next_cron('30 2 * * *', '2026-03-29 00:00+01'), '2026-03-29 03:30+02'::timestamptz, 'a time that the clock leaves out comes when the clock has gone on');
select ok(baton_internal.next_cron('30 2 * * *', '2026-10-25 00:00+02') between '2026-10-25 02:30+02' and '2026-10-25 02:30+01', 'a time that comes twice comes');
select is(baton_internal.next_cron('0 3 * * *', '2026-10-25 03:00+01'), '2026-10-26 03:00+01'::timestamptz, 'and once a day');
reset timezone;

-- schedules
create table source (n int);
select throws_ok(format('select baton.create_stream_table(''s'', ''select n from source'', %L)', s), c, null, 'schedule "' || s || '" is refused')
  from (values ('0s', '22023'), ('-1 minute', '22023'), ('500 ms', '22023'), ('1000 years', '22023'), ('often', '22023'), ('', '22023'), ('61 * * * *', '22023'), ('0 0 30 2 *', '22023'),
               ('infinity', '22023'), ('1 * * *', '22023')) x (s, c);
select is(to_regclass('s'), null, 'and nothing is left of it');
select baton.create_stream_table('s', 'select n from source', '90 seconds');
select ok((select next_due - refreshed_at between interval '89 seconds' and interval '91 seconds' from baton.stream_table_status('s')), 'a duration counts from the last refresh');
select lives_ok(format('select baton.alter_stream_table(''s'', schedule => %L)', s), 'schedule "' || s || '" is taken') from unnest('{1s,1 month,"0 3 * * *",2 hours 30 minutes,PT1M}'::text[]) s;
select throws_ok($$ select baton.alter_stream_table('s', schedule => '1s', reset => '{schedule}') $$, '22023', null, 'a schedule is not set and reset at once');
select throws_ok($$ select baton.create_stream_table('live_one', 'select 1 as n', 'live') $$, '0A000', null, 'live needs the extension') from baton.installation where form = 'sql';
select lives_ok($$ select baton.create_stream_table('live_one', 'select 1 as n', ' Live ') $$, 'live') from baton.installation where form = 'extension';
select is((select schedule from baton.stream_table_status('live_one')), 'live', 'by its name') from baton.installation where form = 'extension';

-- A cron expression names moments of the maker's time zone, whoever looks.
set timezone = 'Asia/Tokyo';
select baton.create_stream_table('nightly', 'select 10 / n as m from source', '0 3 * * *');
set timezone = 'America/New_York';
create function hour_in_tokyo() returns int language sql as $$ select extract(hour from next_due at time zone 'Asia/Tokyo')::int from baton.stream_tables where relation = 'nightly'::regclass $$;
create function look() returns void language plpgsql as $$
begin
    update baton.stream_tables set next_due = case when relation = 'nightly'::regclass then '-infinity'::timestamptz else 'infinity' end where schedule is not null;
    while baton_internal.refresh_due_stream(null) is not null loop
    end loop;
end $$;
select is(hour_in_tokyo(), 3, 'when it is made');
select look();
select is(hour_in_tokyo(), 3, 'after a look that finds nothing');
insert into source values (5);
select look();
select is(hour_in_tokyo() + (select count(*)::int from nightly), 4, 'after a refresh');
insert into source values (0);
select look();
select is(hour_in_tokyo() + (select failed_in_a_row from baton.stream_table_status('nightly')), 4, 'after a failure');
select baton.alter_stream_table('nightly', schedule => '0 4 * * *');
select is(hour_in_tokyo(), 4, 'after a change');

-- a clock that is set back
select baton.alter_stream_table('s', schedule => '90 seconds');
update baton.stream_tables set next_due = clock_timestamp() + interval '1 day' where relation in ('s'::regclass, 'nightly'::regclass);
select baton_internal.maintain_streams();
select ok((select next_due <= clock_timestamp() + interval '90 seconds' from baton.stream_tables where relation = 's'::regclass), 'nobody waits until the clock is where it was');
select is(hour_in_tokyo(), 4, 'nor for longer than a cron expression says');
update baton.stream_tables set next_due = clock_timestamp() + interval '5 minutes', failed_in_a_row = 9 where relation = 's'::regclass;
select baton_internal.maintain_streams();
select ok((select next_due > clock_timestamp() + interval '4 minutes' from baton.stream_tables where relation = 's'::regclass), 'who failed waits as long as before');
reset timezone;
select * from finish();
