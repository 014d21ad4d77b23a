-- A differential refresh relies on what it knows of its sources. Whatever happens to them that no trigger tells of makes the next refresh a full one. In the plain form
-- every refresh is, so that the same must hold there.
select no_plan();
select form = 'extension' as is_extension from baton.installation \gset

-- What a refresh does now, and what verify_stream_table() thinks of the table afterwards.
create function pg_temp.outcome(stream text)
returns text
language plpgsql
as $$
declare
    did record;
    says record;
begin
    select * into did from baton.refresh_stream_table(stream);
    select * into says from baton.verify_stream_table(stream);
    return format('%s came, %s went, %s missing, %s surplus', did.inserted, did.deleted, says.missing, says.surplus);
end
$$;

-- Everything in one transaction, twice.
create table readings (id int, v int);
select baton.create_stream_table('known', 'select id, v from readings', null);
\if :is_extension
begin;
alter table readings disable trigger baton_capture_insert;
insert into readings values (1, 1);
alter table readings enable always trigger baton_capture_insert;
select is(pg_temp.outcome('known'), '1 came, 0 went, 0 missing, 0 surplus', 'rows that a trigger that was off did not see come with the next refresh');
alter table readings disable trigger baton_capture_insert;
insert into readings values (2, 2);
alter table readings enable always trigger baton_capture_insert;
select is(pg_temp.outcome('known'), '1 came, 0 went, 0 missing, 0 surplus', 'the second time in one transaction, too');
savepoint before;
alter table readings disable trigger baton_capture_insert;
insert into readings values (3, 3);
alter table readings enable always trigger baton_capture_insert;
rollback to before;
insert into readings values (4, 4);
select is(pg_temp.outcome('known'), '1 came, 0 went, 0 missing, 0 surplus', 'and after a part that was rolled back');
commit;
select is(pg_temp.outcome('known'), '0 came, 0 went, 0 missing, 0 surplus', 'nothing is left');
select is((select last_mode from baton.stream_tables where relation = 'known'::regclass), 'DIFFERENTIAL', 'and the next refresh is differential again');
vacuum full pg_trigger;
begin;
alter table readings disable trigger baton_capture_insert;
alter table readings enable always trigger baton_capture_insert;
select is(pg_temp.outcome('known'), '0 came, 0 went, 0 missing, 0 surplus', 'a refresh in between');
create table bystander (id int);
create trigger fills_a_place before insert on bystander for each statement execute function suppress_redundant_updates_trigger();
create trigger fills_another_place before insert on bystander for each statement execute function suppress_redundant_updates_trigger();
alter table readings disable trigger baton_capture_insert;
insert into readings values (5, 5);
alter table readings enable always trigger baton_capture_insert;
commit;
vacuum full pg_trigger;
select is(pg_temp.outcome('known'), '1 came, 0 went, 0 missing, 0 surplus', 'a catalog that was written anew does not hide the change');
\endif

create table days (id int, v int) partition by range (id);
create table days_1 partition of days for values from (0) to (10);
create table days_2 (id int, v int);
insert into days_2 values (11, 1);
select baton.create_stream_table('all_days', 'select id, v from days', null);
begin;
alter table days attach partition days_2 for values from (10) to (20);
select is(pg_temp.outcome('all_days'), '1 came, 0 went, 0 missing, 0 surplus', 'a partition comes');
alter table days detach partition days_2;
insert into days_2 values (12, 2);
delete from days_2 where id = 11;
alter table days attach partition days_2 for values from (10) to (20);
select is(pg_temp.outcome('all_days'), '1 came, 1 went, 0 missing, 0 surplus', 'what happened to a partition while it was away is seen, in one transaction, too');
commit;

create function twice(int) returns int immutable language sql as 'select $1 * 2';
create table numbers (id int);
insert into numbers values (1);
select baton.create_stream_table('doubles', 'select twice(id) as v from numbers', null);
begin;
create or replace function twice(int) returns int immutable language sql as 'select $1 * 2 + 1';
select is(pg_temp.outcome('doubles'), '1 came, 1 went, 0 missing, 0 surplus', 'another body of a function counts');
create or replace function twice(int) returns int immutable language sql as 'select $1 * 2 + 2';
select is(pg_temp.outcome('doubles'), '1 came, 1 went, 0 missing, 0 surplus', 'and a second one in the same transaction');
commit;

-- What a query means beyond its text. Each stream table is differential where there is the extension, and has seen its sources.
create function pg_temp.keep(stream text, query text)
returns setof text
language plpgsql
as $$
begin
    perform baton.create_stream_table(stream, query, null), baton.refresh_stream_table(stream);
    return next is((select case when form = 'extension' then 'DIFFERENTIAL' else 'FULL' end from baton.installation),
                   (select effective_mode from baton.stream_table_status(stream)), stream || ' is differential');
end
$$;
-- Let this session know each stream table, as the worker does.
create function pg_temp.settle(variadic streams text[])
returns void
language plpgsql
as $$
declare
    stream text;
begin
    foreach stream in array streams loop
        perform baton.refresh_stream_table(stream), baton.refresh_stream_table(stream);
    end loop;
end
$$;
create type mood as enum ('sad', 'glad');
create domain mild_mood as mood check (value <> 'sad');
create type span as (low int, high mood);
create type wide_span as (inner_span span, note text);
create type moods as range (subtype = mood);
create table feelings (id int, m mood, list mood[], mild mild_mood, s span, w wide_span, r moods);
insert into feelings values (1, 'sad', '{sad,glad}', 'glad', (1, 'sad'), ((1, 'sad'), 'x'), moods('sad', 'glad')), (2, 'glad', null, null, null, null, null);
create function mood_of(int) returns mood immutable language sql as 'select ''sad''::public.mood';
select pg_temp.keep('as_text', 'select id, m::text as m from feelings');
select pg_temp.keep('in_list', 'select id, list::text as m from feelings');
select pg_temp.keep('in_domain', 'select id, mild::text as m from feelings');
select pg_temp.keep('in_row', 'select id, to_jsonb(s) as m from feelings');
select pg_temp.keep('in_nested_row', 'select id, to_jsonb(w) as m from feelings');
select pg_temp.keep('in_range', 'select id, r::text as m from feelings');
select pg_temp.keep('of_function', 'select id, mood_of(id)::text as m from feelings');
select pg_temp.keep('below_view', 'select id, m from as_text');
select pg_temp.keep('untouched', 'select id from feelings');
select pg_temp.settle('as_text', 'in_list', 'in_domain', 'in_row', 'in_nested_row', 'in_range', 'of_function', 'below_view');
alter type mood rename value 'sad' to 'blue';
select is(pg_temp.outcome('as_text'), '1 came, 1 went, 0 missing, 0 surplus', 'a value of an enum that is renamed counts');
select is(pg_temp.outcome('in_list'), '1 came, 1 went, 0 missing, 0 surplus', 'in an array');
select is(pg_temp.outcome('in_domain'), '0 came, 0 went, 0 missing, 0 surplus', 'in a domain, which has none of that value');
select is(pg_temp.outcome('in_row'), '1 came, 1 went, 0 missing, 0 surplus', 'in a row');
select is(pg_temp.outcome('in_nested_row'), '1 came, 1 went, 0 missing, 0 surplus', 'in a row of a row');
select is(pg_temp.outcome('in_range'), '1 came, 1 went, 0 missing, 0 surplus', 'in a range');
select throws_ok($$ select baton.refresh_stream_table('of_function') $$, '22P02', null, 'a function that knows the old value fails');
create or replace function mood_of(int) returns mood immutable language sql as 'select ''blue''::public.mood';
select is(pg_temp.outcome('of_function'), '2 came, 2 went, 0 missing, 0 surplus', 'and gives the new one when it is mended');
select is(pg_temp.outcome('below_view'), '1 came, 1 went, 0 missing, 0 surplus', 'a stream table above follows');
select pg_temp.settle('in_domain');
alter type mood rename value 'glad' to 'merry';
select is(pg_temp.outcome('in_domain'), '1 came, 1 went, 0 missing, 0 surplus', 'in a domain');
select pg_temp.settle('in_row', 'in_nested_row');
alter type span add attribute extra int;
select is(pg_temp.outcome('in_row'), '1 came, 1 went, 0 missing, 0 surplus', 'a type that gets an attribute counts');
select is(pg_temp.outcome('in_nested_row'), '1 came, 1 went, 0 missing, 0 surplus', 'in a row of a row');
select pg_temp.settle('in_row');
alter type span rename attribute extra to more;
select is(pg_temp.outcome('in_row'), '1 came, 1 went, 0 missing, 0 surplus', 'an attribute that is renamed, too');
select pg_temp.settle('in_nested_row');
alter type span drop attribute more;
select is(pg_temp.outcome('in_nested_row'), '1 came, 1 went, 0 missing, 0 surplus', 'and one that goes');
select baton.refresh_stream_table('untouched');
insert into feelings (id) values (3);
select baton.refresh_stream_table('untouched');
select is((select last_mode from baton.stream_tables where relation = 'untouched'::regclass),
          (select case when form = 'extension' then 'DIFFERENTIAL' else 'FULL' end from baton.installation), 'a query without such a value does not mind');

-- functions behind functions, operators, aggregates, casts
create function inmost(int) returns int immutable language plpgsql as 'begin return $1 + 1; end';
create function middle(int) returns int immutable language plpgsql as 'begin return public.inmost($1); end';
create function outermost(int) returns int immutable language sql as 'select public.middle($1)';
create function add_up(int, int) returns int immutable language sql as 'select $1 + $2';
create operator public.<+> (leftarg = int, rightarg = int, function = add_up);
create function put(int, int) returns int immutable language sql as 'select $1 + $2';
create aggregate public.total_of (int) (sfunc = put, stype = int, initcond = '0');
create function shown(bigint) returns text immutable language sql as 'select ''bigint''::text';
create table amounts (id int, v int);
insert into amounts values (1, 10);
select pg_temp.keep('through_functions', 'select outermost(v) as v from amounts');
select pg_temp.keep('by_operator', 'select v operator(public.<+>) 1 as v from amounts');
select pg_temp.keep('by_aggregate', 'select id, public.total_of(v) as v from amounts group by id');
select pg_temp.keep('overloaded', 'select shown(v) as v from amounts');
select pg_temp.settle('through_functions');
create or replace function inmost(int) returns int immutable language plpgsql as 'begin return $1 + 2; end';
select is(pg_temp.outcome('through_functions'), '1 came, 1 went, 0 missing, 0 surplus', 'a function that a function calls counts');
select pg_temp.settle('by_operator');
create or replace function add_up(int, int) returns int immutable language sql as 'select $1 + $2 + 100';
select is(pg_temp.outcome('by_operator'), '1 came, 1 went, 0 missing, 0 surplus', 'the function of an operator counts');
select pg_temp.settle('by_aggregate', 'overloaded');
create or replace function put(int, int) returns int immutable language sql as 'select $1 + 2 * $2';
select is(pg_temp.outcome('by_aggregate'), '1 came, 1 went, 0 missing, 0 surplus', 'the function of an aggregate counts');
create function shown(int) returns text immutable language sql as 'select ''int''::text';
select is(pg_temp.outcome('overloaded'), '0 came, 0 went, 0 missing, 0 surplus', 'a function that would fit better is another one');
create function span_text(span) returns text immutable language sql as 'select ''a span''::text';
select pg_temp.keep('by_cast', 'select id, s::text as s from feelings where s is not null');
select pg_temp.settle('by_cast');
create cast (span as text) with function span_text(span);
select is(pg_temp.outcome('by_cast'), '1 came, 1 went, 0 missing, 0 surplus', 'a cast that is made counts');
select pg_temp.settle('by_cast');
create or replace function span_text(span) returns text immutable language sql as 'select ''the span''::text';
select is(pg_temp.outcome('by_cast'), '1 came, 1 went, 0 missing, 0 surplus', 'and its function');

-- text search and collations
create text search configuration public.plain (copy = pg_catalog.simple);
create table pages (id int, t text);
insert into pages values (1, 'runs and jumps');
select pg_temp.keep('words', $$ select id, to_tsvector('public.plain', t) as w from pages $$);
select pg_temp.keep('simple_words', $$ select id, to_tsvector('pg_catalog.simple', t) as w from pages $$);
select pg_temp.settle('words');
alter text search configuration public.plain alter mapping for asciiword with english_stem;
select is(pg_temp.outcome('words'), '1 came, 1 went, 0 missing, 0 surplus', 'a changed text search configuration counts');
\if :is_extension
select pg_temp.settle('simple_words');
alter text search configuration pg_catalog.simple alter mapping for asciiword with english_stem;
select is(pg_temp.outcome('simple_words'), '1 came, 1 went, 0 missing, 0 surplus', 'also one of the server');
\endif
create collation public.other (locale = 'C.utf8');
create table named (n text collate public.other);
insert into named values ('a');
select pg_temp.keep('sorted', 'select max(n) as n from named');
\if :is_extension
select pg_temp.settle('sorted');
update pg_collation set collversion = 'another' where collname = 'other';
select is((select mode from baton.refresh_stream_table('sorted')), 'FULL', 'another version of a collation is not relied on');
\endif

-- A source that was unlogged for a while
\if :is_extension
create table held (id int);
create index held_id on held (id);
create table held_parts (id int) partition by range (id);
create table held_part partition of held_parts for values from (0) to (9);
select pg_temp.keep('of_held', 'select id from held');
select pg_temp.keep('of_held_parts', 'select id from held_parts');
select pg_temp.settle('of_held', 'of_held_parts');
alter table held set unlogged;
alter table held set logged;
alter table held_part set unlogged;
alter table held_part set logged;
select is((select mode from baton.refresh_stream_table('of_held')), 'FULL', 'a table that a crash may have emptied is not relied on');
select is((select mode from baton.refresh_stream_table('of_held_parts')), 'FULL', 'nor is a partition');
select pg_temp.settle('of_held', 'of_held_parts');
insert into held values (1);
truncate held;
insert into held values (2);
cluster held using held_id;
select is((select mode from baton.refresh_stream_table('of_held')), 'DIFFERENTIAL', 'other new files are no matter');
\endif

-- What the names of things are is asked for at each refresh.
create table things (r regclass, t regtype[]);
insert into things values ('pages', '{mood}');
select baton.create_stream_table('thing_names', 'select r::text as r, to_jsonb(t) as t from things', null);
select pg_temp.settle('thing_names');
alter table pages rename to leaves;
select is(pg_temp.outcome('thing_names'), '1 came, 1 went, 0 missing, 0 surplus', 'a table that is called otherwise is shown so');
select pg_temp.keep('compared', $$ select id, m = 'merry'::mood as merry from feelings $$);
select pg_temp.settle('thing_names', 'compared');
alter type mood rename to state_of_mind;
select is(pg_temp.outcome('thing_names'), '1 came, 1 went, 0 missing, 0 surplus', 'so is a type');
insert into feelings (id, m) values (4, 'merry');
select is(pg_temp.outcome('compared'), '1 came, 0 went, 0 missing, 0 surplus', 'a type of a source can be renamed');

select * from finish();
