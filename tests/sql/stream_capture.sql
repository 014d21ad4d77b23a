-- What a session does to a source is in the change buffer: the rows before, with the weights of the changes, are the rows after. Extension only.
begin;
select no_plan();
select form = 'extension' as is_extension from baton.installation \gset
\if :is_extension

\ir fixtures/capture.sql

create table orders (id int primary key, gone text, customer text, amount numeric, note text);
alter table orders drop gone;
insert into orders values (1, 'ann', 1.0, 'x'), (2, 'bob', 2.0, 'y');
select is(baton_internal.change_buffer('orders'), null, 'a table has no buffer');
select is(baton_internal.capture_source('orders', '{1,3,4}')::text, 'baton_internal.changes_' || 'orders'::regclass::oid, 'until its changes are captured');
select columns_are('baton_internal', 'changes_' || 'orders'::regclass::oid, array['xid', 'step', 'weight', 'c1', 'c3', 'c4'], 'with the columns that are wanted');
select is(baton_internal.current_step(), 0, 'nothing was captured in this transaction');

select is(pg_temp.captured('orders', $$ insert into orders values (3, 'cid', 3.00, 'z'), (4, null, null, null) $$), '1 1', 'INSERT');
select is(baton_internal.current_step(), 1, 'that was the first step');
select is(pg_temp.captured('orders', $$ update orders set amount = amount + 1 where id < 3 $$), '-1 -1 1 1', 'UPDATE');
select is(baton_internal.current_step(), 2, 'that the second');
select is(pg_temp.captured('orders', $$ update orders set note = 'other' $$), 'none', 'an UPDATE of columns that nobody wants leaves nothing');
select is(baton_internal.current_step(), 2, 'and is no step');
select is(pg_temp.captured('orders', $$ update orders set amount = amount * 1.00 $$), '-1 -1 -1 1 1 1', 'an UPDATE to an equal value that is another one is one');
select is(pg_temp.captured('orders', $$ update orders set customer = customer, amount = case id when 1 then 9 else amount end $$), '-1 1', 'rows that stay as they are leave nothing');
select is(pg_temp.captured('orders', $$ update orders set customer = 'dan' where customer is null $$), '-1 1', 'a null is a value');
select is(pg_temp.captured('orders', $$ delete from orders where id = 4 $$), '-1', 'DELETE');
select is(pg_temp.captured('orders', $$ delete from orders where id = 999 $$), 'none', 'a DELETE of no row');
select is(pg_temp.captured('orders', $$ insert into orders select * from orders where false $$), 'none', 'an INSERT of no row');
select is(pg_temp.captured('orders', $$ insert into orders values (1, 'ann', 0, ''), (5, 'eve', 5, '') on conflict (id) do update set amount = excluded.amount $$), '-1 1 1', 'ON CONFLICT DO UPDATE');
select is(pg_temp.captured('orders', $$ insert into orders values (1, 'ann', 7, '') on conflict do nothing $$), 'none', 'ON CONFLICT DO NOTHING');
select is(pg_temp.captured('orders', $$ with gone as (delete from orders where id = 5 returning *), more as (insert into orders select 6, customer, amount, note from gone)
                                        update orders set amount = 11 where id = 1 $$), '-1 -1 1 1', 'a WITH that changes');
select is(pg_temp.captured('orders', $$ do $x$ begin insert into orders values (7, 'flo', 1, ''); update orders set amount = 2 where id = 7; update orders set amount = 3 where id = 7;
                                        delete from orders where id = 7; insert into orders values (7, 'flo', 1, ''); end $x$ $$), '-1 -1 -1 1 1 1 1', 'several changes of one row');
select is(pg_temp.captured('orders', $$ do $x$ begin insert into orders values (8, 'gus', 1, ''); begin delete from orders; raise exception 'no'; exception when raise_exception then null; end;
                                        delete from orders where id = 7; end $x$ $$), '-1 1', 'what is rolled back to a savepoint is not captured');
select is(pg_temp.captured('orders', $$ do $x$ begin if current_setting('server_version_num')::int >= 150000 then
    execute 'merge into orders o using (values (1, 5), (2, 6), (20, 7)) v (id, amount) on o.id = v.id when matched and v.id = 1 then delete
                              when matched then update set amount = v.amount when not matched then insert values (v.id, ''mia'', v.amount)';
  else delete from orders where id = 1; update orders set amount = 6 where id = 2; insert into orders values (20, 'mia', 7); end if; end $x$ $$), '-1 -1 1 1', 'MERGE');
select is(pg_temp.captured('orders', $$ truncate orders $$), '-1 -1 -1 -1 -1', 'TRUNCATE takes every row');
select is(pg_temp.captured('orders', $$ truncate orders $$), 'none', 'and none from an empty table');
select is(pg_temp.captured('orders', $$ do $x$ begin insert into orders values (1, 'a', 1, ''); truncate orders; insert into orders values (2, 'b', 2, ''); end $x$ $$), '-1 1 1',
          'TRUNCATE takes what its own transaction inserted');
select is(pg_temp.captured('orders', $$ copy orders from program 'echo "30,jon,1.5,"; echo "31,,NaN,n"' (format csv) $$), '1 1', 'COPY');

-- A source of any shape.
create type pair as (a numeric, b text);
create domain name_of as text not null check (value <> 'nobody');
create type mood as enum ('sad', 'ok');
create table odd (n int generated always as identity, b bool, c "char", i2 int2, f float8, t name_of, m mood, p pair, a numeric[], pp pair[], r int4range, j jsonb, u uuid, ts timestamptz,
                  iv interval, x xml, bits varbit, pt point, nm name, by bytea, doubled int generated always as (i2 * 2) stored, o oidvector, cs text collate "C");
select baton_internal.capture_source('odd', array(select a.attnum from pg_attribute a where a.attrelid = 'odd'::regclass and a.attnum > 0));
insert into odd (t) values ('before');
alter table odd add added int default 7, add added_text text default 'seven';
select baton_internal.capture_source('odd', (select array[a.attnum, (a.attnum + 1)::int2] from pg_attribute a where a.attrelid = 'odd'::regclass and a.attname = 'added'));
select is(pg_temp.captured('odd', $$ update odd set i2 = 1 $$), '-1 1', 'a row of before a column was added has the column''s default');
select is(pg_temp.captured('odd', $$ insert into odd (b, c, i2, f, t, m, p, a, pp, r, j, u, ts, iv, x, bits, pt, nm, by, o, cs)
    select true, 'x', g, case g when 1 then '-0' when 2 then 'NaN' else '0' end::float8, 'name', 'ok', row(1.00, 'x')::pair, array[1.0, null], array[row(1, 'y')::pair, null], '[1,5)', '{"a": 1.00}',
           md5(g::text)::uuid, '2026-01-01', '24 hours', '<a/>', '101', '(-0,1)', 'name', '\x00ff', '1 2', 'c' from generate_series(1, 3) g $$), '1 1 1', 'columns of any type');
select is(pg_temp.captured('odd', $$ update odd set f = '-0' where f = 0 $$), '-1 1', 'of which some bits differ');
select is(pg_temp.captured('odd', $$ update odd set i2 = 5 where i2 = 2 $$), '-1 1', 'with a computed column');
select is((select c21 from baton_internal.change_buffer('odd') b, lateral (select (xpath('//c21/text()', query_to_xml(format('select c21 from %s where weight = 1', b), true, true, '')))[1]::text as c21) x), '10', 'as computed');
select is(pg_temp.captured('odd', $$ delete from odd $$), '-1 -1 -1 -1', 'and all of them gone');

-- Values that are stored elsewhere or compressed.
create table long (id int, v text, w text);
alter table long alter v set storage external;
select baton_internal.capture_source('long', '{1,2,3}');
select is(pg_temp.captured('long', $$ insert into long select g, repeat(md5(g::text), 400), repeat('w', 100000) from generate_series(1, 5) g $$), '1 1 1 1 1', 'long values');
select is(pg_temp.captured('long', $$ update long set id = -id $$), '-1 -1 -1 -1 -1 1 1 1 1 1', 'of rows that change');
select is(pg_temp.captured('long', $$ update long set v = v || '' $$), 'none', 'the same value stored again is no change');
select is(pg_temp.captured('long', $$ update long set v = v || '.' where id = -1 $$), '-1 1', 'another one is');
select is(pg_temp.captured('long', $$ delete from long where id > -3 $$), '-1 -1', 'and goes whole');
select is(pg_temp.captured('long', $$ truncate long $$), '-1 -1 -1', 'all of them');
select baton_internal.capture_source('long', '{}');

-- More rows than fit one batch.
select is(pg_temp.captured('long', $$ insert into long select g, g, g from generate_series(1, 12345) g $$), rtrim(repeat('1 ', 12345)), 'twelve thousand rows');
select unalike(pg_temp.captured('long', $$ update long set v = v || 'x' where id % 2 = 0 $$), '%differ%', 'half of them changed');
select unalike(pg_temp.captured('long', $$ truncate long $$), '%differ%', 'and are gone');

-- Foreign keys.
create table parents (id int primary key);
create table cascaded (id int, parent int references parents on delete cascade on update cascade);
create table nulled (id int, parent int references parents on delete set null);
select baton_internal.capture_source('parents', '{1}'), baton_internal.capture_source('cascaded', '{1,2}'), baton_internal.capture_source('nulled', '{1,2}');
insert into parents select generate_series(1, 6);
insert into cascaded select g, g % 6 + 1 from generate_series(1, 24) g;
insert into nulled select g, g % 6 + 1 from generate_series(1, 12) g;
select is(pg_temp.captured('cascaded', $$ update parents set id = id + 100 where id = 1 and false or id = 6 and not exists (select from nulled where parent = 6) $$), 'none', 'no parent, no child');
delete from nulled where parent = 6;
select is(pg_temp.captured('cascaded', $$ update parents set id = 100 where id = 6 $$), '-1 -1 -1 -1 1 1 1 1', 'ON UPDATE CASCADE');
select is(pg_temp.captured('cascaded', $$ delete from parents where id in (1, 2) $$), '-1 -1 -1 -1 -1 -1 -1 -1', 'ON DELETE CASCADE');
select is(pg_temp.captured('nulled', $$ delete from parents where id in (3, 4) $$), '-1 -1 -1 -1 1 1 1 1', 'ON DELETE SET NULL');
select is(pg_temp.captured('cascaded', $$ truncate parents cascade $$), '-1 -1 -1 -1 -1 -1 -1 -1', 'TRUNCATE CASCADE');

-- Triggers of the source's owner.
create table guarded (id int, v text);
create function pg_temp.guard() returns trigger language plpgsql as $$ begin
    if tg_op = 'DELETE' then if old.v = 'kept' then return null; end if; return old; end if;
    if new.v = 'refused' then return null; end if; new.v := upper(new.v); return new; end $$;
create trigger guard before insert or update or delete on guarded for each row execute function pg_temp.guard();
create function pg_temp.empty_first() returns trigger language plpgsql as $$ begin delete from guarded where id = 1; insert into guarded values (50, 'late'); return null; end $$;
create trigger first before truncate on guarded execute function pg_temp.empty_first();
create function pg_temp.follow() returns trigger language plpgsql as $$ begin if pg_trigger_depth() < 3 then insert into guarded values (60, 'follower'); end if; return null; end $$;
select baton_internal.capture_source('guarded', '{1,2}');
select is(pg_temp.captured('guarded', $$ insert into guarded values (1, 'a'), (2, 'refused'), (3, 'kept') $$), '1 1', 'BEFORE triggers change and refuse rows');
select is(pg_temp.captured('guarded', $$ update guarded set v = 'kept' where id = 3; update guarded set v = 'refused' where id = 1 $$), 'none', 'of an UPDATE, too');
alter table guarded disable trigger guard;
update guarded set v = 'kept' where id = 3;
alter table guarded enable trigger guard;
select is(pg_temp.captured('guarded', $$ delete from guarded $$), '-1', 'and keep rows from a DELETE');
insert into guarded values (1, 'a');
select is(pg_temp.captured('guarded', $$ truncate guarded $$), '-1 -1 -1 1', 'one that changes rows before a TRUNCATE');
create trigger follow after insert on guarded for each row execute function pg_temp.follow();
create trigger a_follow after insert on guarded for each statement execute function pg_temp.follow();
select is(pg_temp.captured('guarded', $$ insert into guarded values (70, 'x') $$), '1 1 1 1 1 1 1', 'AFTER triggers that insert more');

\else
select hasnt_function('baton_internal', 'capture_source', 'without the extension nothing is captured');
\endif
select * from finish();
rollback;
