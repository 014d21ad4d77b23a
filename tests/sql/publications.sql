-- A publication of all tables, such as Debezium makes, hinders nobody: rows of a published table without a replica identity could not be deleted.
select no_plan();
select form = 'extension' as is_extension from baton.installation \gset
select is((select string_agg(c.oid::regclass::text, ', ') from pg_class c
            where c.relnamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace) and c.relkind = 'r' and not baton_internal.has_row_identity(c.oid)), null,
          'every table of baton''s has a replica identity');
create table items (id int primary key, kind text, amount int);
insert into items select n, n % 3, n from generate_series(1, 9) n;
select baton.create_stream_table('sums', 'select kind, sum(amount) as amount from items group by kind', null);
select baton.create_stream_table('keyed', 'select id, amount from items', null);
alter table keyed add primary key (id), replica identity default;
\if :is_extension
select baton.create_stream_table('at_once', 'select kind, count(*) as n from items group by kind', null, 'IMMEDIATE');
create publication everything for all tables;
\else
create publication everything for table sums, keyed, items;
\endif
select is((select relreplident from pg_class where oid = 'sums'::regclass), 'f'::"char", 'rows of a stream table without a key are known by all of their columns');

update items set amount = amount + 1 where id = 1;
select results_eq($$ select inserted, deleted from baton.refresh_stream_table('sums') $$, 'values (1::bigint, 1::bigint)', 'so they can be deleted');
select results_eq($$ select inserted, deleted from baton.refresh_stream_table('keyed') $$, 'values (1::bigint, 1::bigint)', 'others are known by their key');
\if :is_extension
select ok(baton_internal.has_row_identity(baton_internal.change_buffer('items')), 'a change buffer is made with an identity');
\endif
select lives_ok($$ select baton_internal.maintain_streams() $$, 'and captured changes go');
select is((select relreplident from pg_class where oid = 'keyed'::regclass), 'd'::"char", 'who has a key keeps it');

-- those that were made before, and whose key was dropped
alter table sums replica identity default;
alter table keyed drop constraint keyed_pkey;
update items set amount = amount + 1 where id = 1;
select throws_ok($$ select baton.refresh_stream_table('sums') $$, '55000', null, 'without an identity the server refuses');
select lives_ok($$ select baton.repair_stream_table('sums') $$, 'a repair mends that');
select lives_ok($$ select baton_internal.maintain_streams() $$, 'so does maintenance');
select results_eq($$ select inserted, deleted from baton.refresh_stream_table('keyed') $$, 'values (1::bigint, 1::bigint)', 'after which it is refreshed');

\if :is_extension
select is((select string_agg(distinct effective_mode, ' ' order by effective_mode) from baton.stream_table_status()), 'DIFFERENTIAL IMMEDIATE', 'these follow changes');
select baton_internal.change_buffer('items') as buffer \gset
alter table :buffer replica identity default;
update items set amount = amount + 1;
select lives_ok($$ select baton.refresh_stream_table('sums'), baton.refresh_stream_table('keyed') $$, 'a buffer that was made before is read');
select throws_ok($$ select baton_internal.tidy_captures(true) $$, '55000', null, 'and not emptied');
select lives_ok($$ select baton_internal.maintain_streams() $$, 'until maintenance mends it');
select is_empty('select from ' || :'buffer', 'and empties it');
create table brief (id int);
select baton.create_stream_table('of_brief', 'select id from brief', null);
alter table brief set unlogged;
select isnt_empty('select from baton_internal.unlogged_sources', 'a source was unlogged');
select baton.drop_stream_table('of_brief');
drop table brief;
select baton.create_stream_table('again', 'select kind from items', null);
select baton.drop_stream_table(s.relation::text) from baton.stream_tables s;
select lives_ok($$ select baton_internal.maintain_streams() $$, 'captures end');
select is_empty('select from baton_internal.unlogged_sources', 'and what was noted goes');
\endif
select * from finish();
