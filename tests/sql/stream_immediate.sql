-- In mode IMMEDIATE a stream table is up to date when the writer's statement ends, whatever the statement does besides.
select no_plan();
select form = 'extension' as is_extension from baton.installation \gset
create table products (id int primary key, name text);
create table lines (id int primary key, product int references products on delete cascade, amount int);
\if :is_extension
insert into products select n, 'p' || n from generate_series(1, 10) n;
insert into lines select n, n % 10 + 1, n from generate_series(1, 100) n;
select baton.create_stream_table('totals', 'select p.name, count(*) as n, sum(l.amount) as amount from products p join lines l on l.product = p.id group by p.name', refresh_mode => 'IMMEDIATE');
select baton.create_stream_table('pairs', 'select p.id, p.name, l.id as line from products p left join lines l on l.product = p.id', refresh_mode => 'IMMEDIATE');
select baton.create_stream_table('summary', 'select sum(n) as n, count(*) as products from totals', refresh_mode => 'IMMEDIATE');
select results_eq($$ select effective_mode, reason from baton.stream_table_status() $$, $$ select 'IMMEDIATE', null::text from generate_series(1, 3) $$, 'all are immediate');
create function differences() returns text language sql as $$
    select string_agg(format('%s lacks %s and has %s too many', s.relation, v.missing, v.surplus), ', ')
      from baton.stream_tables s cross join lateral baton.verify_stream_table(s.relation::text) v where v.missing + v.surplus > 0 $$;

insert into lines values (101, 1, 5), (102, 2, 6);
select is(differences(), null, 'insert');
update lines set amount = amount + 1 where product = 3;
select is(differences(), null, 'update');
delete from lines where id % 7 = 0;
select is(differences(), null, 'delete');
insert into lines values (1, 1, 7), (103, 1, 7) on conflict (id) do update set amount = excluded.amount;
select is(differences(), null, 'on conflict do update');
merge into lines l using (values (2, 9), (104, 9)) v (id, amount) on v.id = l.id when matched then update set amount = v.amount when not matched then insert values (v.id, 5, v.amount);
select is(differences(), null, 'merge');
select results_eq('select n::bigint, products from summary', $$ select count(*), count(distinct p.name) from products p join lines l on l.product = p.id $$, 'a chain follows in the same statement');

-- statements that change several sources before the first of them is captured
delete from products where id = 1;
select is(differences(), null, 'a cascade of a foreign key');
with renamed as (update products set name = 'other' where id = 2), gone as (delete from lines where product = 2) insert into lines values (200, 3, 1);
select is(differences(), null, 'three statements in one');
create function follow() returns trigger language plpgsql as $$
begin
    if pg_trigger_depth() < 3 then
        insert into lines values (new.id + 10000, 7, 1);
        update products set name = name || '+' where id = 7;
    end if;
    return null;
end $$;
create trigger follow after insert on lines for each row execute function follow();
insert into lines values (300, 7, 1), (301, 8, 1);
select is(differences(), null, 'triggers that change sources');
drop trigger follow on lines;
create function add_line(id int) returns int language plpgsql as $$ begin insert into lines values (id, 5, id); return id; end $$;
select baton.repair_stream_table('totals'), baton.repair_stream_table('pairs'), baton.repair_stream_table('summary');
insert into lines select 500 + n, 6, add_line(400 + n) from generate_series(1, 3) n;
select is(differences(), null, 'a function that writes to the table of the statement that calls it');
begin;
truncate lines;
select is((select products::int from summary), 0, 'truncate');
select is(differences(), null, 'truncate leaves nothing');
insert into lines values (1, 4, 4);
select is(differences(), null, 'and it goes on');
rollback;
select is(differences(), null, 'a rollback takes everything back');

-- subtransactions
begin;
insert into lines values (600, 3, 1);
savepoint first;
insert into lines values (601, 3, 1);
delete from products where id = 4;
rollback to first;
select is(differences(), null, 'after a rollback to a savepoint');
do $$ begin
    insert into products values (11, 'eleven'), (3, 'three again');
exception when unique_violation then
    insert into lines values (603, 3, 1);
end $$;
select is(differences(), null, 'a statement that failed in the middle leaves nothing open');
commit;
select is(differences(), null, 'after the commit');

-- who writes needs no right on the stream table, and cannot write to it otherwise
create role stream_writer;
grant usage on schema public to stream_writer;
grant select, insert, update, delete on lines, products to stream_writer;
set role stream_writer;
insert into lines values (700, 9, 1);
select throws_ok('delete from totals', '42501', null, 'a writer of the sources has no right on the stream table');
reset role;
select is(differences(), null, 'a writer without rights');
select throws_ok('delete from totals', '55000', null, 'nobody writes to it');

-- a failure of the query is the writer's failure
select baton.create_stream_table('ratios', 'select id, 100 / amount as ratio from lines', refresh_mode => 'IMMEDIATE');
select throws_ok('insert into lines values (800, 9, 0)', '22012', null, 'what the query cannot compute cannot be written');
select is((select count(*)::int from lines where id = 800), 0, 'and is not');
select baton.drop_stream_table('ratios');
select lives_ok('insert into lines values (800, 9, 0)', 'without it all is well');

-- pause, other modes, the outbox
select baton.alter_stream_table('pairs', paused => true);
insert into lines values (900, 9, 1);
select isnt(differences(), null, 'a paused one is left alone');
select baton.alter_stream_table('pairs', paused => false);
select is(differences(), null, 'and is right when it goes on');
insert into lines values (901, 9, 1);
select is(differences(), null, 'and later');
select throws_ok($$ select baton.enable_outbox('totals') $$, '0A000', null, 'an immediate one has no outbox');
select baton.alter_stream_table('totals', refresh_mode => 'DIFFERENTIAL');
insert into lines values (902, 9, 1);
select is((select count(*)::int from baton.stream_table_status() where effective_mode = 'IMMEDIATE'), 2, 'another mode');
select isnt(differences(), null, 'one that is differential waits');
select is((select mode from baton.refresh_stream_table('totals')), 'FULL', 'its first refresh is full');
select is(differences(), null, 'and all agree');
select baton.create_stream_table('late', 'select product, count(*) as n from lines group by product', null);
insert into lines values (904, 9, 1);
select baton.alter_stream_table('late', refresh_mode => 'IMMEDIATE');
select is((select missing + surplus from baton.verify_stream_table('late')), 0::bigint, 'one that becomes immediate is up to date');
insert into lines values (905, 9, 1);
select is((select last_mode from baton.stream_table_status('late')), 'DIFFERENTIAL', 'and the first writer computes no more than his change');
select baton.drop_stream_table('late'), baton.refresh_stream_table('totals');
select baton.enable_outbox('totals');
select throws_ok($$ select baton.alter_stream_table('totals', refresh_mode => 'IMMEDIATE') $$, '0A000', null, 'nor can one with an outbox become immediate');

-- a refresh by a trigger would see rows that are not captured yet
create function refresh_by_trigger() returns trigger language plpgsql as $$ begin perform baton.refresh_stream_table('totals'); return null; end $$;
create trigger refresh_by_trigger after insert on lines for each row execute function refresh_by_trigger();
select throws_ok('insert into lines values (903, 9, 1)', '55006', null, 'no refresh by a trigger');
drop trigger refresh_by_trigger on lines;
select throws_ok($$ select baton.create_stream_table('x', 'select id, random() as r from lines', refresh_mode => 'IMMEDIATE') $$, '0A000', null, 'what is not differential is not immediate');
\else
select throws_ok($$ select baton.create_stream_table('totals', 'select id from lines', refresh_mode => 'IMMEDIATE') $$, '0A000', null, 'changes are captured by the extension');
\endif
select * from finish();
