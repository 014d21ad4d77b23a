-- The views of an inbox: pending_<inbox>, dlq_<inbox>, stats_<inbox>. They are live, and each reads a partial index.

-- Refuse to show rows of an adopted table to whom its owner does not. A view reads with the rights of baton's owner; this is asked
-- once, before it reads, as whoever looks.
create function baton_internal.may_read(relation regclass)
returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if row_security_active(relation) or not has_table_privilege(relation, 'select') then
        raise exception 'permission denied for table %', relation
            using errcode = 'insufficient_privilege',
                  detail = case when row_security_active(relation) then 'row-level security of the table applies to you, and the view would show all rows'
                                else 'the view shows rows of a table that is not open to you' end,
                  hint = format('as the table''s owner: grant select on %s to %I', relation, current_user);
    end if;
    return true;
end
$$;
comment on function baton_internal.may_read(regclass) is 'raises insufficient_privilege unless the present user may read a whole table';

-- Make a view for an inbox, refusing to replace what is not ours.
create function baton_internal.make_inbox_view(box baton.inboxes, part text, prefix text, suffix text, description text, query text)
returns name
language plpgsql
as $$
declare
    view_name name := baton_internal.derived_name(prefix, box.name, suffix);
    reader text;
begin
    if to_regclass(format('%I.%I', box.schema_name, view_name)) is not null then
        raise exception 'relation "%" already exists in schema "%"', view_name, box.schema_name
            using errcode = 'duplicate_table',
                  hint = format('inbox "%s" needs this name for its view; rename the other relation or choose another name', box.name);
    end if;
    if box.layout <> 'managed' then
        query := format('select v.* from (%s) v where baton_internal.may_read(%L::regclass)', query, box.relation);
    end if;
    execute format('create view %I.%I as %s', box.schema_name, view_name, query);
    execute format('comment on view %I.%I is %L', box.schema_name, view_name, description);
    perform baton_internal.note_inbox_object(box.id, part, 'view', box.schema_name, view_name);
    foreach reader in array '{baton_consumer,baton_operator,baton_viewer,baton_relay}'::text[] loop
        if to_regrole(reader) is not null then
            execute format('grant select on %I.%I to %I', box.schema_name, view_name, reader);
        end if;
    end loop;
    return view_name;
end
$$;
comment on function baton_internal.make_inbox_view(baton.inboxes, text, text, text, text, text) is 'creates a view of an inbox and notes it';

-- Write the query of stats_<inbox>: per event type, with what was processed in the last hour only, so that
-- history costs nothing. The columns say so by their names.
create function baton_internal.inbox_stats_query(box baton.inboxes, terms baton_internal.inbox_terms)
returns text
language sql stable
as $$
    select format($query$
        select s.event_type, sum(s.pending)::bigint as pending, sum(s.processed)::bigint as processed_last_hour,
               sum(s.dead_letter)::bigint as dead_letter, sum(s.seconds) / nullif(sum(s.processed), 0) as avg_processing_time_sec_last_hour
          from (select %2$s as event_type, count(*) as pending, 0 as processed, 0 as dead_letter, 0.0 as seconds
                  from %1$s t where %3$s group by 1
                union all
                select %2$s, 0, 0, count(*), 0.0 from %1$s t where %4$s group by 1
                union all
                select %2$s, 0, count(*), 0, sum(extract(epoch from t.%6$I) - extract(epoch from t.%7$I))
                  from %1$s t where %5$s and t.%6$I > now() - interval '1 hour' group by 1) s
         group by s.event_type$query$,
        box.relation, case when box.event_type_column is null then 'null::text' else format('t.%I::text', box.event_type_column) end,
        terms.pending, terms.dead, terms.done, box.processed_at_column, box.received_at_column)
$$;
comment on function baton_internal.inbox_stats_query(baton.inboxes, baton_internal.inbox_terms) is 'query behind stats_<inbox>';

-- Write the query of dlq_<inbox>; in an ordered inbox it says which dead letter holds up its aggregate.
create function baton_internal.inbox_dead_query(box baton.inboxes, terms baton_internal.inbox_terms)
returns text
language sql stable
as $$
    select format('select t.*%s from %s t where %s',
                  case when box.order_mode = 'sequence' then
                      format(', t.%3$I = coalesce((select s.last_sequence from baton_internal.inbox_sequences s'
                             ' where s.inbox = %1$s and s.aggregate = %2$s), 0) + 1 as blocks_aggregate',
                             box.id, terms.aggregate, box.sequence_column) else '' end,
                  box.relation, terms.dead)
$$;
comment on function baton_internal.inbox_dead_query(baton.inboxes, baton_internal.inbox_terms) is 'query behind dlq_<inbox>';

-- Make or remake the plain views of an inbox.
create function baton_internal.make_inbox_views(box baton.inboxes)
returns void
language plpgsql
as $$
declare
    terms baton_internal.inbox_terms;
begin
    perform baton_internal.drop_inbox_objects(box, 'core', 'view');
    if box.layout = 'processed_events' then
        return;  -- ids without a state have nothing to show
    end if;
    terms := baton_internal.inbox_terms(box, for_view => true);
    perform baton_internal.make_inbox_view(box, 'core', 'pending_', '', format('unprocessed messages of inbox %s that still have attempts', box.name),
                                  format('select t.* from %s t where %s', box.relation, terms.pending));
    if box.with_dead_letter then
        perform baton_internal.make_inbox_view(box, 'core', 'dlq_', '', format('messages of inbox %s that used up their attempts', box.name),
                                      baton_internal.inbox_dead_query(box, terms));
    end if;
    if box.with_stats then
        perform baton_internal.make_inbox_view(box, 'core', 'stats_', '',
                                      format('inbox %s by event type; processed and its average cover the last hour', box.name),
                                      baton_internal.inbox_stats_query(box, terms));
    end if;
end
$$;
comment on function baton_internal.make_inbox_views(baton.inboxes) is 'makes pending_, dlq_ and stats_ views';

select baton_internal.declare_privileges('execute', '{baton_consumer,baton_operator,baton_viewer,baton_relay}', '{may_read}');
