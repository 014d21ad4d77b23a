-- The columns of a stream table are those of its query. Somebody who changes them by hand gets an error, and no value goes into a column of another name.
select no_plan();
create table sales (id int primary key, customer text, amount numeric);
insert into sales values (1, 'ann', 10), (2, 'bob', 20);
select baton.create_stream_table('totals', 'select customer, sum(amount) as total from sales group by customer', null);
select baton.enable_outbox('totals');
select baton.create_stream_table('others', 'select id, customer from sales', null);

-- another column in the place of one of the query's
alter table totals add extra numeric;
alter table totals drop total;
insert into sales values (3, 'cid', 30);
select throws_ok($$ select baton.refresh_stream_table('totals') $$, '55000', 'the columns of stream table public.totals are not those of its query any more', 'a refresh is refused');
select throws_ok($$ select baton.verify_stream_table('totals') $$, '55000', 'the columns of stream table public.totals are not those of its query any more', 'and a comparison');
select is((select count(*)::int from outbox_totals), 0, 'nothing is published under the name of another column');
select is((select count(*)::int from totals where extra is not null), 0, 'or written');
select lives_ok($$ select baton.refresh_stream_table('others') $$, 'others are refreshed');
select lives_ok($$ select baton.repair_stream_table('totals') $$, 'a repair gives the columns back, with an outbox, too');
select results_eq('select * from totals order by customer', $$ values ('ann', 10::numeric), ('bob', 20), ('cid', 30) $$, 'with their values');
select results_eq('select missing, surplus from baton.verify_stream_table(''totals'')', $$ values (0::bigint, 0::bigint) $$, 'all of them');

-- each of the ways to change a column
create table changes (number int, change text);
insert into changes values (1, 'rename customer to client'), (2, 'alter id type bigint'), (3, 'alter customer type varchar(9)'),
                           (4, 'alter customer type text collate "C"'), (5, 'add more int'), (6, 'drop customer');
create function refused_after(change text) returns boolean language plpgsql as $$
begin
    execute 'alter table others ' || change;
    perform baton.refresh_stream_table('others');
    return false;
exception when object_not_in_prerequisite_state then
    return true;
end $$;
select ok(refused_after(change), 'a refresh is refused after: ' || change) from changes order by number;
select lives_ok($$ select baton.refresh_stream_table('others') $$, 'what is undone does not count');
alter table others rename to renamed;
insert into sales values (4, 'dan', 40);
select is((select inserted from baton.refresh_stream_table('renamed')), 1::bigint, 'another name of the table is followed');
alter table renamed alter customer set statistics 10, alter customer set storage external;
create index on renamed (customer);
insert into sales values (5, 'eve', 50);
select is((select inserted from baton.refresh_stream_table('renamed')), 1::bigint, 'storage, statistics and indexes are the owner''s');

-- more columns than an index of them has room for; rows differ in the last ones only
select format('create table wide (%s, id int primary key)', string_agg(format('c%s int', g), ', ')) from generate_series(1, 520) g \gexec
insert into wide (c520, id) select g % 2, g from generate_series(1, 4) g;
select lives_ok($$ select baton.create_stream_table('wider', 'select * from wide', null) $$, 'a table of 521 columns');
select is((select effective_mode from baton.stream_table_status('wider')), (select case form when 'extension' then 'DIFFERENTIAL' else 'FULL' end from baton.installation), 'is followed');
update wide set c519 = 1 where id = 2;
delete from wide where id = 3;
insert into wide (id) values (5);
select results_eq($$ select inserted, deleted from baton.refresh_stream_table('wider') $$, $$ values (2::bigint, 2::bigint) $$, 'and changes as the query does');
select is((select last_mode from baton.stream_table_status('wider')), (select effective_mode from baton.stream_table_status('wider')), 'from its changes');
select results_eq('select c519, id from wider order by id', 'values (null, 1), (1, 2), (null, 4), (null, 5)', 'rows that differ in their last columns are told apart');
select * from finish();
