-- Odd moments: a refresh in the midst of a statement that writes, statements within statements of the same table, TRUNCATE whose triggers write.
select no_plan();
select form = 'extension' as is_extension from baton.installation \gset
\if :is_extension
create function is_right(stream text) returns boolean language sql as $$ select v.missing + v.surplus = 0 from baton.verify_stream_table(stream) v $$;

-- a refresh by the very statement that writes would see rows that are not captured yet
create table source (id int, k int);
create table other (id int);
create table parts (id int) partition by range (id);
create table parts_1 partition of parts for values from (0) to (10);
insert into source values (1, 1);
select baton.create_stream_table('later', 'select k, count(*) as n from source group by k', null, 'DIFFERENTIAL');
select baton.create_stream_table('now', 'select k, count(*) as n from source group by k', null, 'IMMEDIATE');
select baton.create_stream_table('of_parts', 'select id from parts', null, 'DIFFERENTIAL');
insert into source values (2, 1);
select throws_ok($$ with i as (insert into source values (3, 2), (4, 2) returning id) select r.mode from i cross join lateral baton.refresh_stream_table(left('later', 5 + 0 * i.id)) r $$,
                 '55006', null, 'a statement that writes to a source and refreshes');
create function refresh_now(stream text) returns int language plpgsql as $$ begin perform baton.refresh_stream_table(stream); return 7; end $$;
select throws_ok($$ insert into source select n, refresh_now('later') from generate_series(10, 12) n $$, '55006', null, 'a function that refreshes');
select throws_ok($$ insert into source select n, refresh_now('now') from generate_series(10, 12) n $$, '55006', null, 'an IMMEDIATE one as well');
select throws_ok($$ update source set k = refresh_now('later') $$, '55006', null, 'in an update');
select throws_ok($$ delete from source where refresh_now('later') = 7 $$, '55006', null, 'in a delete');
select throws_ok($$ insert into parts select n + 0 * refresh_now('of_parts') from generate_series(1, 3) n $$, '55006', null, 'through the parent of partitions');
select throws_ok($$ insert into source select n, length(baton.create_stream_table('made' || n, 'select k, count(*) as n from source group by k', null, 'DIFFERENTIAL')::text) from generate_series(1, 2) n $$,
                 '55006', null, 'nor is one made');
do $$ begin
    begin
        insert into source select n, refresh_now('later') from generate_series(10, 12) n;
    exception when object_in_use then
        insert into source values (5, 3);
    end;
end $$;
select baton.refresh_stream_table('later');
select ok(is_right('later') and is_right('now'), 'nothing of this leaves wrong rows');
insert into source values (6, 3);
select lives_ok($$ insert into other select refresh_now('later') $$, 'a statement that writes to another table may');
select lives_ok($$ select refresh_now('later') from source $$, 'and one that only reads the source');
begin;
insert into source values (7, 3);
select lives_ok($$ select refresh_now('later') $$, 'and the next statement of the transaction');
commit;
select ok(is_right('later') and is_right('now') and is_right('of_parts'), 'all are right');

-- a trigger on a stream table is no refresh of its own
create function refresh_by_trigger() returns trigger language plpgsql as $$ begin perform baton.refresh_stream_table('public.later'); return null; end $$;
create trigger refresh_by_trigger after insert on now for each row execute function refresh_by_trigger();
insert into source values (8, 8);
select matches((select last_error from baton.stream_table_status('now')), 'public.later cannot be refreshed by a trigger', 'a trigger on an IMMEDIATE stream table refreshes no other one');
drop trigger refresh_by_trigger on now;
select baton.repair_stream_table('now');

-- a foreign key of a table to itself, whose statements do not share their transition tables
create table tree (id int primary key, parent int references tree on delete cascade, k int);
create function look() returns trigger language plpgsql as $$ begin return null; end $$;
create trigger "AAA" after delete on tree referencing old table as gone for each row execute function look();
insert into tree select n, nullif(n / 2, 0), n % 3 from generate_series(1, 60) n;
select baton.create_stream_table('alike', 'select a.id, b.id as other from tree a join tree b on a.k = b.k', null, 'IMMEDIATE');
select baton.create_stream_table('children', 'select a.id, count(b.id) as n from tree a left join tree b on a.id = b.parent group by a.id', null, 'IMMEDIATE');
select baton.create_stream_table('leaves', 'select a.id from tree a where not exists (select from tree b where b.parent = a.id)', null, 'IMMEDIATE');
delete from tree where id = 5;
select ok(is_right('alike') and is_right('children') and is_right('leaves'), 'a cascade within one table');
delete from tree where id in (3, 9);
select ok(is_right('alike') and is_right('children') and is_right('leaves'), 'several');
do $$ begin
    begin
        delete from tree where id = 4;
        raise division_by_zero;
    exception when division_by_zero then
        delete from tree where id = 8;
    end;
end $$;
select ok(is_right('alike') and is_right('children') and is_right('leaves'), 'one that is rolled back');
delete from tree;
select ok(is_right('alike') and is_right('children') and is_right('leaves'), 'all');
select is((select sum(last_deleted + last_inserted) > 0 and bool_and(last_mode = 'DIFFERENTIAL') from baton.stream_table_status() where stream_table in ('public.alike', 'public.children', 'public.leaves')), true, 'changes were followed');

-- a TRUNCATE of two tables whose triggers write to what was captured already
create table first (id int);
create table second (id int);
insert into first values (1);
select baton.create_stream_table('first_later', 'select id from first', null, 'DIFFERENTIAL');
select baton.create_stream_table('first_now', 'select id from first', null, 'IMMEDIATE');
create function write_to_first() returns trigger language plpgsql as $$ begin insert into first values (77); return null; end $$;
create trigger write_to_first before truncate on second execute function write_to_first();
insert into first values (2);
select baton.refresh_stream_table('first_later');
truncate first, second;
select ok(is_right('first_now'), 'rows that a trigger wrote go as well');
select baton.refresh_stream_table('first_later');
select ok(is_right('first_later'), 'for a later refresh, too');
insert into first values (3);
truncate first;
insert into first values (4);
select is((select mode from baton.refresh_stream_table('first_later')), 'DIFFERENTIAL', 'a TRUNCATE alone is followed by its changes');
select ok(is_right('first_now') and is_right('first_later'), 'and all is right');
\else
select pass('nothing is captured');
\endif
select * from finish();
