-- The dry run of an adoption: all of it is done, told, and undone.

-- What the user should know about an adoption before it comes.
create function baton_internal.adoption_notes(layout jsonb)
returns text[]
language sql immutable
as $$
    select array_remove(array[
        case when layout #>> '{done,as}' = 'delete' then 'rows are deleted when they are delivered' end,
        case when not layout -> 'columns' ? 'locked_at' then 'there are no lock columns: a claim is an open transaction' end,
        case when not layout -> 'columns' ? 'partition_key' then 'there is no partition key: nothing keeps events in order' end,
        case when not layout -> 'columns' ? 'event_type' then 'there is no event type, which CloudEvents needs' end,
        case when layout #>> '{dead,as}' is null then 'no attempt is the last: a row that cannot be delivered is tried for ever' end,
        case when not layout -> 'columns' ? 'attempts' then 'there is no column for attempts: baton counts them in baton_internal.adopted_failures' end,
        case when not layout -> 'columns' ? 'last_error' then 'there is no column for the error: baton keeps it in baton_internal.adopted_failures' end,
        case when layout -> 'cleanup' @> '{"expire": true}' then 'done rows are deleted when they are over' end,
        case when layout -> 'cleanup' @> '{"archive": true}' then 'done rows move to the archive' end], null)
$$;
comment on function baton_internal.adoption_notes(jsonb) is 'what the user should know about an adoption';

-- Adopt a table, describe what that did, and undo it. What stands in the way is told, not raised.
create function baton_internal.rehearse_adoption(relation regclass, preset text, mapping jsonb)
returns text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    report jsonb := jsonb_build_object('table', relation::text, 'preset', coalesce(preset, baton_internal.detect_preset(relation)));
    adopted baton.adopted_outboxes;
    full_name text;
    why text;
    what_to_do text;
begin
    begin
        full_name := baton_internal.adopt_table(relation, preset, mapping);
        select a.* into adopted from baton.adopted_outboxes a where format('%I.%I', a.schema_name, a.table_name) = full_name;
        report := report || jsonb_build_object('preset', adopted.preset, 'mapping', adopted.layout, 'notes', baton_internal.adoption_notes(adopted.layout),
            'statements', jsonb_strip_nulls(jsonb_build_object('claim', adopted.claim_sql, 'acknowledge', adopted.ack_sql, 'fail', adopted.fail_sql,
                'list dead letters', adopted.dead_sql, 'replay', adopted.replay_sql, 'free locks', adopted.unlock_sql,
                'expire', case when baton_internal.is_asked(adopted.layout, 'expire') then adopted.expire_sql end,
                'archive', case when baton_internal.is_asked(adopted.layout, 'archive') then adopted.archive_sql end)));
        raise exception sqlstate 'BTDRY' using message = 'the dry run is over';
    exception
        when sqlstate 'BTDRY' then
            report := report || jsonb_build_object('creates', coalesce((
                select jsonb_agg(t order by t) from unnest(array[adopted.layout #>> '{dead,table}', adopted.layout #>> '{archive,table}']) t
                 where t is not null and to_regclass(t) is null), '[]'));
        when others then
            get stacked diagnostics why = pg_exception_detail, what_to_do = pg_exception_hint;
            report := report || jsonb_build_object('refused', jsonb_strip_nulls(jsonb_build_object('sqlstate', sqlstate, 'message', sqlerrm,
                'detail', nullif(why, ''), 'hint', nullif(what_to_do, ''))));
    end;
    return jsonb_pretty(report);
end
$$;
comment on function baton_internal.rehearse_adoption(regclass, text, jsonb) is 'describes an adoption and undoes it; called by adopt_outbox()';

select baton_internal.declare_privileges('execute', '{baton_operator}', '{rehearse_adoption}');
