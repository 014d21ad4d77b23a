-- Replaying messages, by their ids only.

-- Offer processed or dead messages again. Others are left as they are. Returns how many are offered again.
create function baton.replay_inbox_messages(name text, event_ids text[], path name[] default current_schemas(false))
returns bigint
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    it baton.inboxes := baton_internal.need_inbox(replay_inbox_messages.name, path);
    terms baton_internal.inbox_terms := baton_internal.inbox_terms(it);
    replayed text[];
begin
    -- Decided before the rows change: which of them are behind their aggregate's last sequence.
    execute format('select array_agg(m.id) from (select %s as id from %s t where t.%I = any ($1::%s[]) and ((%s) or (%s)) order by 1 for update) m',
                   terms.id, it.relation, it.id_column, terms.id_type, terms.done, terms.dead) into replayed using event_ids;
    if replayed is null then
        return 0;
    end if;
    if it.ordering_enabled then
        execute format('insert into baton_internal.inbox_replays (inbox, event_id) select %s, %s from %s t'
                       ' join baton_internal.inbox_sequences s on s.inbox = %1$s and s.aggregate = t.%4$I::text and t.%5$I <= s.last_sequence'
                       ' where t.%6$I = any ($1::%7$s[]) %8$s on conflict do nothing',
                       it.id, terms.id, it.relation, it.aggregate_id_column, it.sequence_column, it.id_column, terms.id_type,
                       baton_internal.inbox_group_condition(it, 't.')) using replayed;
        perform baton_internal.settle_inbox_sequences(it, replayed, null);
    end if;
    execute format('update %s t set %s where t.%I = any ($2::%s[]) %s', it.relation, terms.replay, it.id_column, terms.id_type,
                   baton_internal.inbox_group_condition(it, 't.')) using clock_timestamp(), replayed;
    delete from baton_internal.inbox_work w where w.inbox = it.id and w.event_id = any (replayed);
    perform baton_internal.alert('inbox_replay', format('%I.%I', it.schema_name, it.name),
                        jsonb_build_object('count', cardinality(replayed), 'event_ids', to_jsonb(replayed[1:20]), 'by', session_user));
    return cardinality(replayed);
end
$$;
comment on function baton.replay_inbox_messages(text, text[], name[]) is 'offers the named processed or dead messages again';

select baton_internal.declare_privileges('execute', '{baton_operator}', '{replay_inbox_messages}');
