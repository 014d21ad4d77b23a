-- Whoever may call a C++ function of stream tables may call it with anything: the server answers, and lives.
select no_plan();
select (select form from baton.installation) = 'extension' as has_module \gset
\if :has_module
create role producer_only;
grant baton_producer to producer_only;
set role producer_only;
create function pg_temp.outcome(statement text) returns text language plpgsql as $$
declare
    result text;
begin
    execute statement into result;
    return result;
exception when others then
    return sqlstate;
end $$;
select is(pg_temp.outcome('select baton_internal.delta_json(1, null::record, 500)'), '22004', 'a delta is not of null rows');
select is(pg_temp.outcome('select baton_internal.delta_json(null, row(1), 500)'), '22004', 'nor of null weights');
select is(pg_temp.outcome('select baton_internal.delta_json(1, row(1), null)'), '22004', 'nor of a null size');
select is(pg_temp.outcome('select baton_internal.delta_json(9223372036854775807, row(), 1000)'), null, 'rows without columns take room, too');
select is(pg_temp.outcome('select baton_internal.delta_json((-9223372036854775808)::bigint, row(1), 1000)'), null, 'the least weight is a weight');
select is(pg_temp.outcome('select baton_internal.is_unseen(''1''::xid8, 1)'), '55000', 'no refresh, no frontier');
reset role;

-- every C++ function, with null for each argument, by somebody who may call all of them
create function outcome_of_nulls(function oid) returns text language plpgsql as $$
declare
    nulls constant text := (select string_agg(format('null::%s', format_type(t, null)), ', ' order by n) from pg_proc p, unnest(p.proargtypes) with ordinality a (t, n) where p.oid = function);
begin
    execute format('select count(*) from (select %s(%s)) s', function::regproc, replace(replace(nulls, '::anyelement', '::int'), '::record', '::pg_class'));
    return 'fine';
exception when others then
    return 'an error';
end $$;
select ok(outcome_of_nulls(p.oid) in ('fine', 'an error'), p.proname || ' survives nulls')
  from pg_proc p join pg_language l on l.oid = p.prolang
 where l.lanname = 'c' and p.prokind = 'f' and p.prosrc ~ '^baton_' and p.prorettype <> 'trigger'::regtype and not 'internal'::regtype = any (p.proargtypes) and p.pronamespace = 'baton_internal'::regnamespace
   and p.proname not in (select q.proname from pg_proc q where q.prokind = 'f' and q.pronamespace = p.pronamespace group by q.proname having count(*) > 1)
 order by p.proname;

-- a full refresh may have no frontier, and its query may ask for one
select baton.create_stream_table('asks', 'select 1 as a', null, 'FULL');
create function asking() returns boolean language plpgsql as $$ begin return baton_internal.is_unseen('1'::xid8, 1); exception when object_not_in_prerequisite_state then return null; end $$;
select baton.alter_stream_table('asks', query => 'select 1 as a, public.asking() as b');
select lives_ok($$ select baton.refresh_stream_table('asks') $$, 'is_unseen() in the query of a full refresh');

-- rows in rows, deeper than the stack
create function nested(depth int) returns record language plpgsql as $$
declare
    r record := row(1);
begin
    for i in 1 .. depth loop
        r := row(r);
    end loop;
    return r;
end $$;
select isnt(baton_internal.image(nested(100)), null, 'rows in rows have an image');
set max_stack_depth = '100kB';
select throws_ok($$ select baton_internal.image(nested(4000)) $$, '54001', null, 'unless they are too deep');
reset max_stack_depth;
\else
select pass('no C++ functions');
\endif
select * from finish();
