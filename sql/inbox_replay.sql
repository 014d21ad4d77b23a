-- Replaying messages: those that somebody names, or all dead ones.

-- Offer messages again: processed and dead ones of these keys, or only dead ones or, without keys, all dead ones. Returns how many are offered again.
create function baton_internal.replay_messages(box baton.inboxes, keys text[], dead_only boolean default false)
returns bigint
language plpgsql
as $$
declare
    terms constant baton_internal.inbox_terms := baton_internal.inbox_terms(box);
    replayed text[];
begin
    perform baton_internal.check_inbox_grants(box, '{select,update}');
    -- Decided before the rows change: which of them are behind their aggregate's last sequence.
    replayed := array(select r.id from baton_internal.run_as_owner(box.relation,
        format('select %s from %s t where %s%s order by 1 for update', terms.id, box.relation,
               case when keys is null then format('(%s)', terms.dead)
                    else format('t.%I = any ($2::%s[]) and ((%s) or (%s))', box.id_column, terms.id_type,
                                case when dead_only then 'false' else terms.done end, terms.dead) end,
               baton_internal.inbox_group_condition(box, 't.')), ids => keys) as r (id text));
    if replayed = '{}' then
        return 0;
    end if;
    if box.order_mode = 'sequence' then
        insert into baton_internal.inbox_replays (inbox, event_id)
        select box.id, r.id
          from baton_internal.run_as_owner(box.relation, format('select %s, %s, t.%I::bigint from %s t where t.%I = any ($2::%s[]) %s',
                   terms.id, terms.aggregate, box.sequence_column, box.relation, box.id_column, terms.id_type,
                   baton_internal.inbox_group_condition(box, 't.')), ids => replayed) as r (id text, aggregate text, sequence bigint)
          join baton_internal.inbox_sequences s on s.inbox = box.id and s.aggregate = r.aggregate and r.sequence <= s.last_sequence
         where octet_length(r.id) <= baton_internal.longest_kept_id()
        on conflict do nothing;
        perform baton_internal.settle_inbox_sequences(box, terms, replayed, null);
    end if;
    perform baton_internal.change_as_owner(box.relation, format('update %s t set %s where t.%I = any ($2::%s[]) %s', box.relation, terms.replay,
                box.id_column, terms.id_type, baton_internal.inbox_group_condition(box, 't.')), clock_timestamp(), replayed);
    delete from baton_internal.inbox_work w where w.inbox = box.id and w.event_id = any (replayed);
    perform baton_internal.alert('inbox_replay', format('%I.%I', box.schema_name, box.name),
                        jsonb_build_object('count', cardinality(replayed), 'event_ids', (select jsonb_agg(baton_internal.tenant_name(box, e)) from unnest(replayed[1:20]) e), 'by', session_user));
    perform baton_internal.record_action('replay_inbox_messages', format('%I.%I', box.schema_name, box.name),
                                         jsonb_build_object('count', cardinality(replayed), 'event_ids', to_jsonb(replayed[1:100])));
    return cardinality(replayed);
end
$$;
comment on function baton_internal.replay_messages(baton.inboxes, text[], boolean) is 'offers messages of an inbox again';

-- Offer processed or dead messages again, by their ids; with dead_only those that are dead still. Others are left as they are. Returns how many
-- are offered again.
create function baton.replay_inbox_messages(name text, event_ids text[], path name[] default current_schemas(false), dead_only boolean default false)
returns bigint
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    box constant baton.inboxes := baton_internal.need_tenant_inbox(replay_inbox_messages.name, path);
begin
    perform baton_internal.check_inbox_is_queue(box);
    if event_ids is null or array_position(event_ids, null) is not null then
        raise exception 'ids of messages are needed'
            using errcode = 'invalid_parameter_value', hint = 'without any, baton.replay_inbox_messages(''...'') offers all dead messages of an inbox again';
    end if;
    return baton_internal.replay_messages(box, baton_internal.inbox_message_keys(box, event_ids), dead_only is true);
end
$$;
comment on function baton.replay_inbox_messages(text, text[], name[], boolean) is 'offers the named processed or dead messages again';

-- Offer all dead messages of an inbox again.
create function baton_internal.replay_dead_messages(inbox text, path name[])
returns bigint
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    box constant baton.inboxes := baton_internal.need_tenant_inbox(inbox, path);
begin
    perform baton_internal.check_inbox_is_queue(box);
    return baton_internal.replay_messages(box, null);
end
$$;
comment on function baton_internal.replay_dead_messages(text, name[]) is 'offers all dead messages of an inbox again; called by replay_inbox_messages()';

-- The same under the public name; no path is given here, because a list of ids could be taken for one.
create function baton.replay_inbox_messages(name text)
returns bigint
language sql
as $$ select baton_internal.replay_dead_messages(name, current_schemas(false)) $$;
comment on function baton.replay_inbox_messages(text) is 'offers all dead messages of an inbox again';

-- Offer all dead messages again that the caller may replay. An inbox in trouble does not keep the others.
create function baton.replay_inbox_messages()
returns bigint
language plpgsql
as $$
declare
    inbox text;
    replayed bigint := 0;
begin
    for inbox in select s.inbox from baton.inbox_status() s where s.dead_letter_count > 0 order by 1 loop
        begin
            replayed := replayed + baton_internal.replay_dead_messages(inbox, '{}');
        exception when others then
            raise warning 'dead messages of inbox % were not replayed: %', inbox, sqlerrm using errcode = sqlstate;
        end;
    end loop;
    return replayed;
end
$$;
comment on function baton.replay_inbox_messages() is 'offers all dead messages of all inboxes again';

select baton_internal.declare_privileges('execute', '{baton_operator}', '{replay_inbox_messages,replay_dead_messages}');
