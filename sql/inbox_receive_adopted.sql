-- Receiving into adopted tables. They get no triggers, and their own jobs may delete rows, so every id is kept from
-- the start; where the table has a unique key on the id, that key decides about rows that came in another way.

-- Write the columns and values of a row that comes into an adopted table; `g` is the message, $1 the moment.
create function baton_internal.inbox_adopted_row(box baton.inboxes, out columns text, out row_values text)
language sql stable
as $$
    select string_agg(quote_ident(c.column_name), ', ' order by c.n), string_agg(c.expression, ', ' order by c.n)
      from (values
        (1, box.id_column, 'g.event_id::' || baton_internal.inbox_column_type(box, box.id_column)),
        (2, box.event_type_column, 'coalesce(g.event_type, ''unknown'')'),
        (3, box.source_column, case box.layout when 'omni_box' then 'coalesce(g.source, '''')' else 'g.source' end),
        (4, box.aggregate_id_column, 'g.aggregate_id'),
        -- A table without room for the bytes of an unreadable message keeps them in its payload.
        (5, box.payload_column, 'case when g.payload_raw is null then coalesce(g.payload, ''null'') else jsonb_build_object(''raw_base64'', g.payload_raw) end'),
        (6, box.headers_column, 'g.headers'),
        (7, box.trace_id_column, 'g.trace_id'),
        (8, box.sequence_column, 'g.sequence_num'),
        (9, box.priority_column, 'g.priority'),
        (10, box.received_at_column, '$1 + g.position * interval ''1 microsecond'''),
        (11, box.error_column, 'g.error'),
        (12, case box.layout when 'mapped' then box.retry_count_column end, format('case when g.error is null then 0 else %s end', box.max_retries)),
        (13, box.group_column, quote_literal(box.group_value)),
        (14, case box.layout when 'omni_box' then 'id' end, 'gen_random_uuid()'),
        (15, case box.layout when 'omni_box' then 'status' end, 'case when g.error is null then ''pending'' else ''failed'' end'),
        (16, case box.layout when 'omni_box' then 'scheduled_at' end, 'coalesce(g.available_at, $1)')
      ) as v (n, column_name, expression)
      cross join lateral (select v.n, v.column_name,
          case when v.n = 1 or v.column_name is null then v.expression
               else format('(%s)::%s', v.expression, baton_internal.inbox_column_type(box, v.column_name)) end as expression) c
     where c.column_name is not null
$$;
comment on function baton_internal.inbox_adopted_row(baton.inboxes) is 'columns and values of a row received into an adopted table';

-- Write the statement that stores messages in an adopted table and names those that are new there: $2 ids that the inbox has not
-- had, $3 the messages.
create function baton_internal.inbox_receive_adopted_sql(box baton.inboxes)
returns text
language plpgsql stable
as $$
declare
    r record;
    given text := $given$
        with given as materialized (
            select m.* from (
                select m.*, row_number() over (partition by m.event_id order by m.position) = 1 as first
                  from rows from (jsonb_to_recordset($3) as (event_id text, event_type text, source text, aggregate_id text, payload jsonb,
                           headers jsonb, trace_id text, sequence_num bigint, priority int, available_at timestamptz,
                           payload_raw text, error text)) with ordinality as m (event_id, event_type, source, aggregate_id, payload,
                           headers, trace_id, sequence_num, priority, available_at, payload_raw, error, position)) m
             where m.first and m.event_id = any ($2)
        )$given$;
begin
    if box.layout = 'processed_events' then
        return given || baton_internal.inbox_ledger_insert_sql(box);
    end if;
    r := baton_internal.inbox_adopted_row(box);
    return given || format($query$
        insert into %1$s as t (%2$s) select %3$s from given g
         where not exists (select 1 from %1$s t where t.%4$I = g.event_id::%5$s %6$s) order by g.event_id
        %7$s returning t.%4$I::text$query$, box.relation, r.columns, r.row_values, box.id_column,
        baton_internal.inbox_column_type(box, box.id_column), baton_internal.inbox_group_condition(box, 't.'),
        case when box.conflict_columns is null then '' else
            format('on conflict (%s) do nothing', (select string_agg(quote_ident(c), ', ') from unnest(box.conflict_columns) c)) end);
end
$$;
comment on function baton_internal.inbox_receive_adopted_sql(baton.inboxes) is 'statement that stores a batch in an adopted table';

-- Write the insert into a table of processed ids: an id counts again once its row has expired.
create function baton_internal.inbox_ledger_insert_sql(box baton.inboxes)
returns text
language sql stable
as $$
    select format($query$
        insert into %1$s as t (%2$I, %3$I)
        select g.event_id::%4$s, %5$L from given g order by g.event_id
        on conflict (%6$s) do update set %3$I = excluded.%3$I, processed_at = excluded.processed_at, expires_at = excluded.expires_at
         where t.expires_at <= $1
        returning t.%2$I::text$query$,
        box.relation, box.id_column, box.group_column, baton_internal.inbox_column_type(box, box.id_column), box.group_value,
        (select string_agg(quote_ident(c), ', ') from unnest(box.conflict_columns) c))
$$;
comment on function baton_internal.inbox_ledger_insert_sql(baton.inboxes) is 'insert into a table of processed ids';

-- Refuse to call a message a duplicate because another consumer group has had it.
create function baton_internal.check_inbox_ledger_owner(box baton.inboxes, event_ids text[])
returns void
language plpgsql
as $$
declare
    other record;
begin
    if box.layout <> 'processed_events' or event_ids = '{}' then
        return;
    end if;
    select r.* into other from baton_internal.run_as_owner(box.relation,
        format('select t.%1$I::text, t.%2$I::text from %3$s t where t.%1$I = any ($2::%4$s[]) and t.%2$I <> %5$L'
               ' and not exists (select 1 from %3$s o where o.%1$I = t.%1$I and o.%2$I = %5$L) limit 1',
               box.id_column, box.group_column, box.relation, baton_internal.inbox_column_type(box, box.id_column), box.group_value),
        ids => event_ids) as r (id text, owner text);
    if other.id is not null then
        raise exception 'message "%" was recorded by consumer group "%"', other.id, other.owner
            using errcode = 'BT003', detail = format('the key of table %s does not tell consumer groups apart', box.relation),
                  hint = 'give each group its own table, or make the group part of the key';
    end if;
end
$$;
comment on function baton_internal.check_inbox_ledger_owner(baton.inboxes, text[]) is 'raises BT003 when a key shared by groups hides a message';
