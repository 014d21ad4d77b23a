-- A view shows what its owner may see. So does a stream table over the view, however it is refreshed.
select no_plan();
select (select form from baton.installation) = 'extension' as has_module \gset
\if :has_module
create role keeper;
create role clerk;
grant keeper, clerk to current_user;
grant baton_operator to keeper;
create schema kept authorization keeper;
create schema shown authorization clerk;
grant usage on schema kept to clerk;
grant usage on schema shown to keeper;
set role keeper;
create table kept.docs (id int primary key, secret boolean);
create table kept.later (id int primary key, secret boolean);
insert into kept.docs values (1, false), (2, true);
insert into kept.later values (1, false), (2, true);
alter table kept.docs enable row level security;
create policy open_only on kept.docs to clerk using (not secret);
create policy open_only on kept.later to clerk using (not secret);
grant select on kept.docs, kept.later to clerk;
set role clerk;
create view shown.docs as select id, secret from kept.docs;
create view shown.later as select id, secret from kept.later;
grant select on shown.docs, shown.later to keeper;
set role keeper;
create view kept.above as select id from shown.docs;
select baton.create_stream_table('kept.published', 'select id, secret from shown.docs', null);
select baton.create_stream_table('kept.counted', 'select count(*) as n from kept.above', null);
select baton.create_stream_table('kept.published_later', 'select id, secret from shown.later', null);
select baton.create_stream_table('kept.own', 'select id, secret from kept.docs', null);
select throws_ok($$ select baton.create_stream_table('kept.insists', 'select id from shown.docs', null, 'DIFFERENTIAL') $$, '0A000', null, 'DIFFERENTIAL is refused');
select is(effective_mode, 'FULL', 'policies of a view''s owner: computed in full') from baton.stream_tables where relation in ('kept.published'::regclass, 'kept.counted'::regclass);
select is(effective_mode, 'DIFFERENTIAL', 'without them: by changes') from baton.stream_tables where relation in ('kept.published_later'::regclass, 'kept.own'::regclass);
insert into kept.docs values (3, true), (4, false);
insert into kept.later values (3, false);
select baton.refresh_stream_table(name) from unnest('{kept.published,kept.counted,kept.published_later,kept.own}'::text[]) name;
select results_eq('select id from kept.published order by id', array[1, 4], 'what the view hides stays hidden');
select is((select n::int from kept.counted), 2, 'through two views');
select results_eq('select id from kept.published_later order by id', array[1, 2, 3], 'no policies, no hiding');
select results_eq('select id from kept.own order by id', array[1, 2, 3, 4], 'the owner''s own table');
alter table kept.later enable row level security;
insert into kept.later values (5, true), (6, false);
select baton.refresh_stream_table('kept.published_later');
select results_eq('select id from kept.published_later order by id', array[1, 3, 6], 'policies that come later are noticed');
insert into kept.later values (7, true);
select baton.refresh_stream_table('kept.published_later');
select results_eq('select id from kept.published_later order by id', array[1, 3, 6], 'and kept in mind');
reset role;
\else
select pass('the plain form computes everything in full');
\endif
select * from finish();
