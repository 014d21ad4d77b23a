-- The statement of a refresh. One statement, so one snapshot: it computes the changes, sums up those that cancel out, deletes, inserts and gives
-- back what the outbox is to carry. Rows are counted: a stream table holds a row as often as its query gives it.
--
-- Two rows are the same when the images of their columns are (sql/stream_image_extension.sql): 1.0 and 1.00 are different values to keep.

-- The parts that statements on a stream table are written with: its columns as c1, c2, ... and what makes rows the same.
--   names       their names, in order            "a", "b"
--   numbers     c1, c2
--   grouped     what rows are grouped by         c1, baton_internal.image(c2)
--   kept        a row of a group                 c1, baton_internal.one_of(c2) as c2
--   row_of      a row n under the names of the columns
create function baton_internal.stream_parts(relation regclass, out names text, out numbers text, out grouped text, out kept text, out row_of text)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select string_agg(quote_ident(c.name), ', ' order by c.number),
           string_agg('c' || c.number, ', ' order by c.number),
           string_agg(case when p.plain then 'c' || c.number else format('baton_internal.image(c%s)', c.number) end, ', ' order by c.number),
           string_agg(case when p.plain then 'c' || c.number else format('baton_internal.one_of(c%1$s) as c%1$s', c.number) end, ', ' order by c.number),
           '(select ' || string_agg(format('n.c%s as %I', c.number, c.name), ', ' order by c.number) || ')'
      from baton_internal.table_columns(relation) c
     cross join lateral (select baton_internal.is_plain_type(c.type, c.collation_id) as plain) p
$$;
comment on function baton_internal.stream_parts(regclass) is 'fragments of the statements on a stream table';

-- The changes that a query makes necessary: its rows come, the table's rows go. Each row that goes says where it is.
create function baton_internal.full_delta(relation regclass, query text)
returns text
language sql stable
as $$
    select format('select q.*, 1 as baton_weight, null::tid as baton_place from (%s) q union all select %s, -1, ctid from only %s', query,
                  (baton_internal.stream_parts(relation)).names, relation)
$$;
comment on function baton_internal.full_delta(regclass, text) is 'difference between a query and a stream table, with weights';

-- Write the statement that applies a full difference. Rows to be deleted are known by their place. What comes waits for what goes, because a
-- unique index of the user's would see both.
create function baton_internal.full_statement(relation regclass, query text, changes boolean)
returns text
language sql stable
as $$
    select format($sql$
        with delta (%1$s, baton_weight, baton_place) as (%2$s),
        net as materialized (
            select %3$s, sum(baton_weight) as weight, array_agg(baton_place) filter (where baton_place is not null) as places
              from delta group by %4$s having sum(baton_weight) <> 0),
        gone as (
            delete from only %5$s t using (select p.place from net n cross join lateral unnest(n.places[1 : -n.weight::int]) p (place) where n.weight < 0) g
             where t.ctid = g.place returning 1),
        come as (
            insert into %5$s (%6$s)
            select %7$s from net n cross join lateral generate_series(1, n.weight)
             where n.weight > 0 and (select count(*) from gone) >= 0
            returning 1)
        %8$s$sql$, p.numbers, baton_internal.full_delta(relation, query), p.kept, p.grouped, relation, p.names,
        (select string_agg('n.' || c, ', ') from unnest(string_to_array(p.numbers, ', ')) c), baton_internal.outcome_rows(p.row_of, changes))
      from baton_internal.stream_parts(relation) p
$$;
comment on function baton_internal.full_statement(regclass, text, boolean) is 'statement that makes a stream table what its query gives';

-- The end of the statement of a refresh: a row of totals, with the payload of an event where an outbox wants to know and the changes fit in one (see
-- inline_limits()). Where they do not, a row per change follows, those that go first.
create function baton_internal.outcome_rows(row_of text, changes boolean)
returns text
language sql immutable
as $$
    select $sql$,
        size as materialized (select coalesce(sum(abs(weight)), 0) as rows, coalesce(-sum(weight) filter (where weight < 0), 0)::bigint as wanted from net)$sql$
        || case when changes then format($sql$,
        each as not materialized (
            select * from net union all select n.* from net n cross join lateral generate_series(2, abs(n.weight)) where abs(n.weight) > 1),
        built as materialized (
            select %2$s where (select s.rows from size s) <= pg_catalog.current_setting('baton_session.inline_rows')::numeric),
        event as materialized (
            select b.payload from built b cross join size s
             where s.rows <= pg_catalog.current_setting('baton_session.inline_rows')::numeric
               and case when pg_column_size(b.payload) < pg_catalog.current_setting('baton_session.inline_bytes')::bigint / 8 then true  -- far from the limit, whatever its text is
                        else octet_length(b.payload::text) <= pg_catalog.current_setting('baton_session.inline_bytes')::bigint end)$sql$, row_of, baton_internal.payload_expression(row_of)) else '' end
        || $sql$
        select null::text as op, null::jsonb as data, (select count(*) from come) as inserted, (select count(*) from gone) as deleted,
               (select s.wanted from size s) as wanted, pg_current_snapshot() as sight$sql$
        || case when changes then format($sql$, (select payload from event) as payload
        union all
        select 'D', %2$s, null, null, null, null, null from each n cross join lateral %1$s j where n.weight < 0 and (select payload from event) is null
        union all
        select 'I', %2$s, null, null, null, null, null from each n cross join lateral %1$s j where n.weight > 0 and (select payload from event) is null$sql$,
                       row_of, baton_internal.row_expression())
           else ', null::jsonb as payload' end
$$;
comment on function baton_internal.outcome_rows(text, boolean) is 'end of the statement of a refresh';

-- Write the statement that gives all rows of a stream table in the same way, as rows that come.
create function baton_internal.snapshot_statement(relation regclass)
returns text
language sql stable
as $$
    select format('with net (%s, weight) as (select %s, 1 from only %s), come as (select from net), gone as (select where false)%s',
                  p.numbers, p.names, relation, baton_internal.outcome_rows(p.row_of, true))
      from baton_internal.stream_parts(relation) p
$$;
comment on function baton_internal.snapshot_statement(regclass) is 'statement that gives all rows of a stream table as an event''s';

-- Say up to how many rows and bytes the changes of a refresh in this transaction are in the event itself; -1: never.
create function baton_internal.inline_limits(most_rows bigint, most_bytes bigint)
returns void
language plpgsql
as $$
begin
    perform set_config('baton_session.inline_rows', most_rows::text, true), set_config('baton_session.inline_bytes', most_bytes::text, true);
end
$$;
comment on function baton_internal.inline_limits(bigint, bigint) is 'limits of the changes that a refresh puts into an event';

-- Write the statement that counts how a stream table differs from its query.
create function baton_internal.verify_statement(relation regclass, query text)
returns text
language sql stable
as $$
    select format($sql$
        with delta (%1$s, baton_weight, baton_place) as (%2$s),
        net as (select sum(baton_weight) as weight from delta group by %3$s having sum(baton_weight) <> 0)
        select coalesce(sum(n.weight) filter (where n.weight > 0), 0)::bigint, coalesce(-sum(n.weight) filter (where n.weight < 0), 0)::bigint from net n$sql$,
        p.numbers, baton_internal.full_delta(relation, query), p.grouped)
      from baton_internal.stream_parts(relation) p
$$;
comment on function baton_internal.verify_statement(regclass, text) is 'statement that counts missing and surplus rows of a stream table';
