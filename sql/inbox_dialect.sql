-- How an inbox's table says pending, dead, done, due; and what an update writes to move a message on.
-- The terms speak of the table as `t`; its conditions can be had without that prefix, for an index. In all of them $1 is the moment of the
-- call. In baton's own tables $4 is the error and $5 whether the failure is permanent in `fail`, and $2 the token, $3 the worker and $4 the
-- end of the lease in `lease`; adopted tables, which are worked as their owner, find error, permanent and worker in the JSON of $3.
--
-- What lasts, an index or a view, never holds the number of attempts, so that changing it rebuilds nothing: indexes select
-- by `waiting`, `unfinished`, `failed` and `done`, and views read the number from the catalog. So that dead letters cost a
-- claim nothing all the same, a dead letter of a managed inbox is due at the end of time.

create type baton_internal.inbox_terms as (
    id         text,  -- the message's id as text
    id_type    text,  -- the type to which ids are cast before they are compared
    pending    text,
    dead       text,
    done       text,
    unfinished text,  -- pending or dead
    waiting    text,  -- every pending message, and as few dead ones as the table tells apart without counting
    failed     text,  -- unfinished, and every dead message among them
    aggregate  text,  -- the aggregate's name, by which order is kept
    available  text,  -- when a message may be offered, null for at once
    due        text,  -- in which order messages are offered
    retries    text,
    limit_of   text,  -- attempts a message has
    complete   text,
    fail       text,
    lease      text,
    release    text,
    replay     text
);
comment on type baton_internal.inbox_terms is 'SQL fragments for one inbox''s table';

-- Return how long a message waits after its n-th failure: doubling, capped, with jitter so that retries spread.
create function baton_internal.backoff_delay(base interval, cap interval, jitter float8, attempt int)
returns interval
language sql volatile
as $$
    select least(extract(epoch from cap)::float8, extract(epoch from base)::float8 * power(2, least(greatest(attempt, 1), 31) - 1))
           * (1 - jitter * random()) * interval '1 second'
$$;
comment on function baton_internal.backoff_delay(interval, interval, float8, int) is 'exponential backoff with jitter';

-- Write the same as SQL, for statements that cannot call baton's functions.
create function baton_internal.backoff_delay_sql(box baton.inboxes, attempt text)
returns text
language sql immutable
as $$
    select format('least(%s::float8, %s::float8 * power(2, least(greatest(%s, 1), 31) - 1)) * (1 - %s * random()) * interval ''1 second''',
                  extract(epoch from box.backoff_cap), extract(epoch from box.backoff_base), attempt, box.backoff_jitter)
$$;
comment on function baton_internal.backoff_delay_sql(baton.inboxes, text) is 'exponential backoff with jitter as SQL';

-- Write the condition that narrows a shared table to the inbox's consumer group.
create function baton_internal.inbox_group_condition(box baton.inboxes, prefix text)
returns text
language sql immutable
as $$ select case when box.group_column is null then '' else format(' and %s%I = %L', prefix, box.group_column, box.group_value) end $$;
comment on function baton_internal.inbox_group_condition(baton.inboxes, text) is 'SQL for the messages of the inbox''s consumer group';

-- Return the terms of tables that follow processed_at and retry_count: baton's own and adopted ones.
create function baton_internal.inbox_standard_terms(box baton.inboxes, prefix text, limit_of text)
returns baton_internal.inbox_terms
language plpgsql stable
as $$
declare
    terms baton_internal.inbox_terms;
    managed boolean := box.layout = 'managed';
    error_given text := case when managed then '$4' else '($3 ->> ''error'')' end;
    for_good text := case when managed then '$5' else '($3 ->> ''permanent'')::boolean' end;
    error_set text := case when box.error_column is null then '' else format(', %I = ', box.error_column) end;
    lapsed text := case when managed then '(t.leased_until is not null)' else 'l.lapsed' end;
    group_condition text := baton_internal.inbox_group_condition(box, prefix);
    clear_lease text := case when managed then ', lease_token = null, leased_by = null, leased_until = null' else '' end;
begin
    terms.retries := format('t.%I', box.retry_count_column);
    terms.limit_of := limit_of;
    terms.pending := format('%1$s%2$I is null and %1$s%3$I < %4$s', prefix, box.processed_at_column, box.retry_count_column, limit_of) || group_condition;
    terms.failed := format('%1$s%2$I is null and %1$s%3$I > 0', prefix, box.processed_at_column, box.retry_count_column) || group_condition;
    terms.dead := terms.failed || format(' and %s%I >= %s', prefix, box.retry_count_column, limit_of);
    terms.waiting := format('%s%I is null', prefix, box.processed_at_column) || group_condition
                     || case when managed then format(' and %savailable_at < ''infinity''', prefix) else '' end;
    terms.done := format('%s%I is not null', prefix, box.processed_at_column) || group_condition;
    terms.unfinished := format('%s%I is null', prefix, box.processed_at_column) || group_condition;
    terms.available := case when managed then 't.available_at' else 'w.available_at' end;
    terms.due := prefix || case when managed then 'available_at' else quote_ident(box.received_at_column) end;
    terms.complete := format('%I = $1', box.processed_at_column) || error_set || case when error_set = '' then '' else 'null' end || clear_lease;
    terms.fail := format('%1$I = case when %3$s then greatest(t.%1$I + 1, %2$s) else t.%1$I + 1 end', box.retry_count_column, limit_of, for_good)
                  || error_set || case when error_set = '' then '' else error_given end || clear_lease
                  || case when managed then format(', available_at = case when $5 or t.retry_count + 1 >= %s then ''infinity'''
                                                   ' else $1 + baton_internal.backoff_delay(%L, %L, %L, t.retry_count + 1) end,'
                                                   ' failures = baton_internal.add_failure(t.failures, t.retry_count + 1, $4, $1)',
                                                   limit_of, box.backoff_base, box.backoff_cap, box.backoff_jitter) else '' end;
    terms.replay := format('%I = null, %I = 0', box.processed_at_column, box.retry_count_column)
                    || error_set || case when error_set = '' then '' else 'null' end || clear_lease
                    || case when managed then ', available_at = $1' else '' end;
    terms.release := substr(clear_lease, 3);
    -- A lease that ran out counts as a failed attempt: a message that kills its worker must not go round for ever.
    terms.lease := format('%1$I = t.%1$I + %2$s::int', box.retry_count_column, lapsed)
                   || error_set || case when error_set = '' then ''
                                        else format('case when %s then %s else t.%I end', lapsed,
                                                    case when managed then 'format(''the lease of worker "%s" ran out'', t.leased_by)'
                                                         else '''the lease of a worker ran out''' end, box.error_column) end
                   || case when managed then format(', lease_token = case when %1$s then $2 end, leased_by = case when %1$s then $3 end,'
                                                    ' leased_until = case when %1$s then $4 end,'
                                                    ' available_at = case when %1$s then t.available_at else ''infinity'' end,'
                                                    ' failures = case when %2$s then baton_internal.add_failure(t.failures, t.retry_count + 1,'
                                                    ' format(''the lease of worker "%%s" ran out'', t.leased_by), $1) else t.failures end',
                                                    format('t.retry_count + %s::int < %s', lapsed, limit_of), lapsed) else '' end;
    return terms;
end
$$;
comment on function baton_internal.inbox_standard_terms(baton.inboxes, text, text) is 'terms of tables with processed_at and retry_count';

-- Return the terms of the status layout: pending, completed, failed, with attempts and locks in the row.
create function baton_internal.inbox_status_terms(box baton.inboxes, prefix text)
returns baton_internal.inbox_terms
language plpgsql stable
as $$
declare
    terms baton_internal.inbox_terms;
    group_condition text := baton_internal.inbox_group_condition(box, prefix);
    unlock text := 'locked_at = null, locked_by = null, updated_at = $1';
begin
    terms.retries := 't.attempts_made';
    terms.limit_of := 't.max_attempts';
    terms.pending := format('%1$sstatus = ''pending'' and %1$sattempts_made < %1$smax_attempts', prefix) || group_condition;
    terms.dead := format('%1$sstatus <> ''completed'' and (%1$sstatus = ''failed'' or %1$sattempts_made >= %1$smax_attempts)', prefix) || group_condition;
    terms.waiting := prefix || 'status = ''pending''' || group_condition;
    terms.failed := prefix || 'status <> ''completed''' || group_condition;
    terms.done := format('%1$sstatus = ''completed'' and %1$scompleted_at is not null', prefix) || group_condition;
    terms.unfinished := prefix || 'completed_at is null' || group_condition;
    terms.available := 't.scheduled_at';
    terms.due := prefix || 'scheduled_at';
    terms.complete := 'status = ''completed'', completed_at = $1, ' || unlock;
    terms.fail := format('attempts_made = case when %1$s then t.max_attempts else least(t.attempts_made + 1, t.max_attempts) end,'
                         ' status = case when %1$s or t.attempts_made + 1 >= t.max_attempts then ''failed'' else ''pending'' end,'
                         ' last_error = left($3 ->> ''error'', 2000), scheduled_at = $1 + %2$s, ',
                         '($3 ->> ''permanent'')::boolean', baton_internal.backoff_delay_sql(box, 't.attempts_made + 1')) || unlock;
    terms.replay := 'status = ''pending'', completed_at = null, attempts_made = 0, last_error = null, scheduled_at = $1, ' || unlock;
    terms.release := unlock;
    terms.lease := 'attempts_made = least(t.attempts_made + l.lapsed::int, t.max_attempts),'
                   ' status = case when t.attempts_made + l.lapsed::int >= t.max_attempts then ''failed'' else t.status end,'
                   ' last_error = case when l.lapsed then ''the lease of a worker ran out'' else t.last_error end,'
                   ' locked_at = case when t.attempts_made + l.lapsed::int < t.max_attempts then $1 end,'
                   ' locked_by = case when t.attempts_made + l.lapsed::int < t.max_attempts then left($3 ->> ''worker'', 255) end, updated_at = $1';
    return terms;
end
$$;
comment on function baton_internal.inbox_status_terms(baton.inboxes, text) is 'terms of tables with status, attempts and locks';

-- Return the terms of an inbox's table; for a view, which outlives a change of the number of attempts, when asked.
create function baton_internal.inbox_terms(box baton.inboxes, prefix text default 't.', for_view boolean default false)
returns baton_internal.inbox_terms
language plpgsql stable
as $$
declare
    terms baton_internal.inbox_terms;
begin
    perform baton_internal.check_inbox_is_queue(box);
    terms := case box.layout when 'omni_box' then baton_internal.inbox_status_terms(box, prefix)
                            else baton_internal.inbox_standard_terms(box, prefix, case when for_view
                                then format('(select i.max_retries from baton.inboxes i where i.id = %s)', box.id) else box.max_retries::text end) end;
    terms.id := format('t.%I', box.id_column) || case when box.layout = 'managed' then '' else '::text' end;
    terms.id_type := case when box.layout = 'managed' then 'text' else baton_internal.inbox_column_type(box, box.id_column) end;
    terms.aggregate := prefix || quote_ident(box.aggregate_id_column) || '::text';
    if box.tenancy then
        terms.aggregate := baton_internal.tenant_key_sql(prefix || 'tenant_id', terms.aggregate);
    end if;
    if box.tenancy and for_view then
        terms.pending := terms.pending || baton_internal.inbox_visible_sql(box);
        terms.dead := terms.dead || baton_internal.inbox_visible_sql(box);
        terms.done := terms.done || baton_internal.inbox_visible_sql(box);
        terms.unfinished := terms.unfinished || baton_internal.inbox_visible_sql(box);
        terms.waiting := terms.waiting || baton_internal.inbox_visible_sql(box);
    end if;
    if box.priority_tiers is not null then
        terms.due := baton_internal.inbox_priority_due(box, terms.due, prefix);
    end if;
    return terms;
end
$$;
comment on function baton_internal.inbox_terms(baton.inboxes, text, boolean) is 'SQL fragments that read and move the messages of an inbox';

-- Return the type of a column of the inbox's table, as it is written in a cast.
create function baton_internal.inbox_column_type(box baton.inboxes, column_name name)
returns text
language plpgsql stable
as $$
declare
    type_name text;
begin
    select format_type(a.atttypid, null) into type_name
      from pg_attribute a where a.attrelid = box.relation and a.attname = column_name and not a.attisdropped and a.attnum > 0;
    if not found then
        raise exception 'column "%" of inbox "%" is gone', column_name, box.name
            using errcode = 'undefined_column',
                  hint = 'drop the inbox and adopt the table again with its present columns; adopted tables are never dropped';
    end if;
    return type_name;
end
$$;
comment on function baton_internal.inbox_column_type(baton.inboxes, name) is 'type of a mapped column; raises when the column is gone';

-- Name the parts of an inbox's statements: the terms of its table, and the table, its columns and the inbox's number.
create function baton_internal.inbox_parts(box baton.inboxes, terms baton_internal.inbox_terms, prefix text default 't.')
returns jsonb
language plpgsql stable
as $$
begin
    return to_jsonb(terms) || jsonb_build_object(
        'inbox', box.id,
        'relation', box.relation,
        'key', prefix || quote_ident(box.id_column),
        'processed_at', prefix || quote_ident(box.processed_at_column),
        'received_at', prefix || quote_ident(box.received_at_column),
        'aggregate_column', prefix || quote_ident(box.aggregate_id_column),
        'sequence', prefix || quote_ident(box.sequence_column));
end
$$;
comment on function baton_internal.inbox_parts(baton.inboxes, baton_internal.inbox_terms, text) is 'parts of an inbox''s statements, for baton_internal.fill()';
