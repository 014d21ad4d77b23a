-- Replaying messages, by their ids only.

-- Offer processed or dead messages again. Others are left as they are. Returns how many are offered again.
create function baton.replay_inbox_messages(name text, event_ids text[], path name[] default current_schemas(false))
returns bigint
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    it baton.inboxes := baton_internal.need_tenant_inbox(replay_inbox_messages.name, path);
    terms baton_internal.inbox_terms := baton_internal.inbox_terms(it);
    replayed text[];
begin
    perform baton_internal.check_inbox_grants(it, '{select,update}');
    -- Decided before the rows change: which of them are behind their aggregate's last sequence.
    replayed := array(select r.id from baton_internal.run_as_owner(it.relation,
        format('select %s from %s t where t.%I = any ($2::%s[]) and ((%s) or (%s)) order by 1 for update',
               terms.id, it.relation, it.id_column, terms.id_type, terms.done, terms.dead), ids => baton_internal.inbox_message_keys(it, event_ids)) as r (id text));
    if replayed = '{}' then
        return 0;
    end if;
    if it.order_mode = 'sequence' then
        insert into baton_internal.inbox_replays (inbox, event_id)
        select it.id, r.id
          from baton_internal.run_as_owner(it.relation, format('select %s, %s, t.%I::bigint from %s t where t.%I = any ($2::%s[]) %s',
                   terms.id, terms.aggregate, it.sequence_column, it.relation, it.id_column, terms.id_type,
                   baton_internal.inbox_group_condition(it, 't.')), ids => replayed) as r (id text, aggregate text, sequence bigint)
          join baton_internal.inbox_sequences s on s.inbox = it.id and s.aggregate = r.aggregate and r.sequence <= s.last_sequence
        on conflict do nothing;
        perform baton_internal.settle_inbox_sequences(it, terms, replayed, null);
    end if;
    perform baton_internal.change_as_owner(it.relation, format('update %s t set %s where t.%I = any ($2::%s[]) %s', it.relation, terms.replay,
                it.id_column, terms.id_type, baton_internal.inbox_group_condition(it, 't.')), clock_timestamp(), replayed);
    delete from baton_internal.inbox_work w where w.inbox = it.id and w.event_id = any (replayed);
    perform baton_internal.alert('inbox_replay', format('%I.%I', it.schema_name, it.name),
                        jsonb_build_object('count', cardinality(replayed), 'event_ids', (select jsonb_agg(baton_internal.tenant_name(it, e)) from unnest(replayed[1:20]) e), 'by', session_user));
    return cardinality(replayed);
end
$$;
comment on function baton.replay_inbox_messages(text, text[], name[]) is 'offers the named processed or dead messages again';

select baton_internal.declare_privileges('execute', '{baton_operator}', '{replay_inbox_messages}');
