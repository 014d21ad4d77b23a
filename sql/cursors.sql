-- Pages of rows, the latest first. A cursor is the moment of the last row seen, in microseconds, a colon, and what tells rows of one moment apart.

-- Write the moment by which rows are paged: one that is missing is the beginning of time, and those at infinity are far away.
create function baton_internal.page_moment_sql(moment text)
returns text
language sql immutable
as $$
    select pg_catalog.format('least(greatest(coalesce((%s)::timestamptz, to_timestamp(0)), ''4000-01-01 00:00+00 BC''::timestamptz), ''30000-01-01 00:00+00''::timestamptz)', moment)
$$;
comment on function baton_internal.page_moment_sql(text) is 'expression by which rows are paged, from the expression of their moment';

-- Return that moment.
create function baton_internal.page_moment(moment timestamptz)
returns timestamptz
language sql stable
as $$ select least(greatest(coalesce(moment, pg_catalog.to_timestamp(0)), '4000-01-01 00:00+00 BC'::timestamptz), '30000-01-01 00:00+00'::timestamptz) $$;
comment on function baton_internal.page_moment(timestamptz) is 'moment by which a row is paged';

create function baton_internal.moment_as_number(moment timestamptz)
returns bigint
language sql stable
as $$ select (extract(epoch from moment) * 1000000)::bigint $$;
comment on function baton_internal.moment_as_number(timestamptz) is 'a moment as cursors have it, in microseconds';

create function baton_internal.moment_of_cursor(cursor text)
returns timestamptz
language sql stable
as $$ select pg_catalog.to_timestamp(0) + split_part(cursor, ':', 1)::bigint * interval '1 microsecond' $$;
comment on function baton_internal.moment_of_cursor(text) is 'the moment within a cursor';

select baton_internal.declare_privileges('execute', '{baton_operator,baton_viewer}', '{page_moment,moment_as_number,moment_of_cursor}');
