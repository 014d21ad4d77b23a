-- What a captured table's types and functions do runs as the table's owner, never as baton's; writers need no right to the outbox.
select no_plan();
\ir fixtures/mallory.sql
select 'writer_' || current_database() as writer \gset
create role :"writer";
grant :"writer" to current_user;
grant baton_operator to :"writer";
grant usage on schema den to :"writer";

\if :as_owner
set role :"mallory";
create type den.sly as enum ('1', '2', '3', '4', '5');
create function den.show(s den.sly) returns json language plpgsql as $$
begin
    begin
        perform set_config('role', 'none', true);
    exception when others then null;
    end;
    perform den.grab('cast');
    return '{"shown": true}';
end $$;
create cast (den.sly as json) with function den.show(den.sly);
create table den.things (id int primary key, s den.sly);
insert into den.things values (1, '1');
grant insert, select, delete, update, truncate on den.things to :"writer";
reset role;
set role :"writer";
select throws_ok($$ select baton.capture_table('den.things') $$, '42501', null, 'only the owner of a table captures it');
reset role;
select baton.capture_table('den.things', snapshot => true);
select public.only_mallory('a capture by a superuser');
select is((select proowner::regrole::text from pg_proc where proname ~ '^baton_capture_'), quote_ident(:'mallory'), 'the function of the triggers belongs to the owner of the table');
insert into den.things values (2, '2');
update den.things set s = '3';
select public.only_mallory('a write by a superuser');
set role :"writer";
insert into den.things values (3, '4');
select throws_ok($$ insert into den.outbox_things (event_type) values ('x') $$, '42501', null, 'a writer cannot publish');
truncate den.things;
reset role;
select public.only_mallory('a write by somebody else');
select is((select count(*)::int from den.outbox_things), 8, 'all of it was captured');
select is((select payload -> 'after' -> 's' from den.outbox_things where id = 1), '{"shown": true}', 'as the type wants it');
set role :"writer";
select throws_ok($$ select baton.uncapture_table('den.things') $$, '42501', null, 'only the owner ends a capture');
reset role;
set role :"mallory";
select is(baton.uncapture_table('den.things'), true, 'who needs nobody''s help');
select is(baton.capture_table('den.things'), 'den.outbox_things', 'nor to capture it');
insert into den.things values (5, '5');
select is((select count(*)::int from baton.captured_tables()), 1, 'and sees so');
reset role;
select is((select count(*)::int from den.outbox_things), 1, 'it works the same');
set session_replication_role = replica;
insert into den.things values (6, '5');
update den.things set id = 7 where id = 6;
update den.things set s = null where id = 7;
delete from den.things where id = 7;
reset session_replication_role;
select results_eq('select event_type, aggregate_id from den.outbox_things where id > 1 order by id',
                  $$ values ('table.insert', '6'), ('table.delete', '6'), ('table.insert', '7'), ('table.update', '7'), ('table.delete', '7') $$, 'what a replica applies is captured once, and in order');
select public.only_mallory('a replica');
\else
create schema workshop;
create table workshop.things (id int primary key);
select baton.capture_table('workshop.things');
set role :"writer";
select throws_ok($$ select baton.capture_table('workshop.things') $$, '42501', null, 'only the owner of a table captures it');
select throws_ok($$ select baton.uncapture_table('workshop.things') $$, '42501', null, 'or ends that');
reset role;
grant usage on schema workshop to :"writer";
grant insert on workshop.things to :"writer";
set role :"writer";
select lives_ok('insert into workshop.things values (1)', 'a writer needs no right to the outbox');
select throws_ok($$ insert into workshop.outbox_things (event_type) values ('x') $$, '42501', null, 'and has none');
reset role;
select is((select aggregate_id from workshop.outbox_things), '1', 'the change is captured');
\endif
select * from finish();
