#pragma once
// What the tester does in the database: make a stream table, some with an outbox, and compare it.

namespace baton::test {

constexpr const char* stream_keeper = R"sql(
create schema tester;
create table tester.initial (name text, image text);

-- Make a stream table; says why it is not differential. Of the mutations the first that changes its statement is taken, and its number said; where
-- there is none, nothing is made.
create function tester.make(name text, query text, mutations text[], with_outbox boolean, out reason text, out mutation int) language plpgsql as $$
declare
    place constant text := format('tester.%I', name);
    mutated text;
    made baton.stream_tables;
begin
    begin
        perform baton.create_stream_table(place, query, schedule => null, refresh_mode => 'DIFFERENTIAL');
    exception when feature_not_supported then
        perform baton.create_stream_table(place, query, schedule => null, refresh_mode => 'AUTO');
    end;
    select * into made from baton.stream_tables s where s.relation = place::regclass;
    for i in 1 .. cardinality(mutations) loop
        execute format('select %s from (select $1 as delta) d', mutations[i]) into mutated using made.delta;
        if mutated <> made.delta then
            update baton.stream_tables s set delta = mutated where s.stream_id = made.stream_id;
            mutation := i;
            exit;
        end if;
    end loop;
    if cardinality(mutations) > 0 and mutation is null then
        perform baton.drop_stream_table(place);
        return;
    end if;
    if with_outbox then
        perform baton.enable_outbox(place);
        execute format('insert into tester.initial select %L, to_jsonb(t)::text from %s t', name, place);
    end if;
    reason := coalesce(made.reason, '');
end $$;

-- What the deltas in an outbox, after the first content, make of a stream table, compared with what it is.
create function tester.differences_of_outbox(name text, place text) returns text language plpgsql set jit = off as $$
declare
    result text;
begin
    execute format($sql$
        with held as (select to_jsonb(t)::text as image from %1$s t),
        came as (select r::text as image from tester.outbox_%2$s e, jsonb_array_elements(e.payload -> 'inserted') r
                 union all select d.payload::text from tester.outbox_delta_rows_%2$s d where d.op = 'I'
                 union all select i.image from tester.initial i where i.name = %2$L),
        went as (select r::text as image from tester.outbox_%2$s e, jsonb_array_elements(e.payload -> 'deleted') r
                 union all select d.payload::text from tester.outbox_delta_rows_%2$s d where d.op = 'D')
        select string_agg(what || image, E'\n') from (select * from (
            select 'missing in the outbox ' as what, x.image from ((table held union all table went) except all table came) x
            union all select 'surplus in the outbox ', x.image from (table came except all (table held union all table went)) x) d limit 10) d
        $sql$, place, name) into result;
    return result;
end $$;

-- What speaks against a stream table, some lines of it.
create function tester.differences(name text) returns text language plpgsql set jit = off as $$
declare
    place constant text := format('tester.%I', name);
    st constant baton.stream_tables := (select s from baton.stream_tables s where s.relation = place::regclass);
    verified record;
    result text;
begin
    execute format($sql$
        with query as (select q::text as image from (%1$s) q), held as (select t::text as image from %2$s t)
        select string_agg(what || image, E'\n') from (select * from (
            select 'missing ' as what, x.image from (table query except all table held) x
            union all select 'surplus ', x.image from (table held except all table query) x) d limit 10) d
        $sql$, st.query, place) into result;
    if result is null and to_regclass(format('tester.%I', 'outbox_' || name)) is not null then
        result := tester.differences_of_outbox(name, place);
    end if;
    select * into verified from baton.verify_stream_table(place);
    if (verified.missing <> 0 or verified.surplus <> 0) and result is null then
        result := format('verify_stream_table() finds %s missing and %s surplus', verified.missing, verified.surplus);
    elsif verified.missing = 0 and verified.surplus = 0 and result is not null then
        result := result || E'\nverify_stream_table() finds nothing';
    end if;
    return coalesce(result, '');
end $$;
)sql";

}  // namespace baton::test
