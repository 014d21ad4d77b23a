-- Tenants of an inbox made with tenancy => true are apart, as those of an outbox are: a session works for the tenant in baton.tenant_id, and
-- for all of them only without one, as the relay, an operator or the owner of baton.
--
-- Two tenants may use one message id, and one aggregate id. So the table's key, by which baton names a message everywhere inside, is made of
-- the tenant and the id, and so is the name of an aggregate. Whoever calls gives and gets plain ids.

-- Write the key of a tenant's message or aggregate: the length keeps 'a' + 'bc' and 'ab' + 'c' apart.
create function baton_internal.tenant_key_sql(tenant text, name text)
returns text
language sql immutable
as $$ select format('(length(%1$s)::text || '':'' || %1$s || %2$s)', tenant, name) $$;
comment on function baton_internal.tenant_key_sql(text, text) is 'SQL for the key of a tenant''s message or aggregate';

-- Write the name within such a key; of an inbox without tenants, the key is the name.
create function baton_internal.tenant_name_sql(box baton.inboxes, key text)
returns text
language sql immutable
as $$
    select case when box.tenancy then format('substr(%1$s, strpos(%1$s, '':'') + 1 + left(%1$s, strpos(%1$s, '':'') - 1)::int)', key) else key end
$$;
comment on function baton_internal.tenant_name_sql(baton.inboxes, text) is 'SQL for the plain id within a key';

-- Return the name within a key.
create function baton_internal.tenant_name(box baton.inboxes, key text)
returns text
language sql immutable
as $$
    select case when box.tenancy and key ~ '^[0-9]{1,9}:'  -- what was not found has kept the name that was asked for
                then substr(key, strpos(key, ':') + 1 + left(key, strpos(key, ':') - 1)::int) else key end
$$;
comment on function baton_internal.tenant_name(baton.inboxes, text) is 'the plain id within a key';

-- Return the key of a name for a tenant.
create function baton_internal.tenant_key(tenant text, name text)
returns text
language sql immutable
as $$ select length(tenant)::text || ':' || tenant || name $$;
comment on function baton_internal.tenant_key(text, text) is 'key of a tenant''s message or aggregate';

-- Write the key of a message from its columns.
create function baton_internal.inbox_key_sql(box baton.inboxes, prefix text)
returns text
language sql immutable
as $$ select case when box.tenancy then baton_internal.tenant_key_sql(prefix || 'tenant_id', prefix || 'event_id') else prefix || 'event_id' end $$;
comment on function baton_internal.inbox_key_sql(baton.inboxes, text) is 'SQL for the key of a message of a managed inbox';

-- Return the inbox as the caller may work with it: of one with tenants, the session's tenant only. Here a tenant is a group of the table:
-- every statement that keeps to a group keeps to the tenant.
create function baton_internal.need_tenant_inbox(inbox text, path name[])
returns baton.inboxes
language plpgsql stable
as $$
declare
    box baton.inboxes := baton_internal.need_inbox(inbox, path);
begin
    if box.tenancy and nullif(current_setting('baton.tenant_id', true), '') is not null then
        box.group_column := 'tenant_id';
        box.group_value := current_setting('baton.tenant_id');
    elsif box.tenancy and not baton_internal.sees_all_tenants() then
        raise exception 'inbox "%" keeps tenants apart', format('%I.%I', box.schema_name, box.name)
            using errcode = 'insufficient_privilege', hint = 'set baton.tenant_id to the tenant that you work for';
    end if;
    return box;
end
$$;
comment on function baton_internal.need_tenant_inbox(text, name[]) is 'the inbox with a name, limited to the session''s tenant';

-- Write the tenant of a message that comes in. A dead letter may have none: then it is nobody's, and those who see all tenants see it.
create function baton_internal.message_tenant_sql(box baton.inboxes, prefix text)
returns text
language sql immutable
as $$
    select format('coalesce(%1$stenant_id, nullif(current_setting(''baton.tenant_id'', true), '''')%2$s)', prefix,
                  case when box.tenancy then format(', case when %serror is not null then '''' end', prefix) else '' end)
$$;
comment on function baton_internal.message_tenant_sql(baton.inboxes, text) is 'SQL for the tenant of a message that comes in';

-- Refuse messages for another tenant than the session's, and those without one.
create function baton_internal.check_inbox_message_tenants(box baton.inboxes, messages jsonb)
returns void
language plpgsql stable
as $$
begin
    if box.tenancy and box.group_value is not null
       and exists (select 1 from jsonb_array_elements(messages) m (body) where m.body ->> 'tenant_id' <> box.group_value) then
        raise exception 'a message belongs to another tenant' using errcode = 'insufficient_privilege',
            hint = 'set baton.tenant_id to the tenant of the messages';
    elsif box.tenancy and box.group_value is null
          and exists (select 1 from jsonb_array_elements(messages) m (body) where coalesce(m.body ->> 'tenant_id', '') = '' and m.body ->> 'error' is null) then
        raise exception 'a message of inbox "%" names no tenant', format('%I.%I', box.schema_name, box.name) using errcode = 'null_value_not_allowed',
            hint = 'give it a tenant_id, or set baton.tenant_id to the tenant of the messages';
    end if;
end
$$;
comment on function baton_internal.check_inbox_message_tenants(baton.inboxes, jsonb) is 'raises insufficient_privilege for messages of another tenant';

-- Return the keys of messages that a caller names by their ids. Who works for all tenants means the message held with the token.
create function baton_internal.inbox_message_keys(box baton.inboxes, event_ids text[], lease_token uuid default null)
returns text[]
language plpgsql stable
as $$
declare
    ids text[] := array(select distinct case when box.layout = 'managed' then baton_internal.short_id(e) else e end from unnest(event_ids) e order by 1);
    keys text[];
begin
    if not box.tenancy then
        return ids;
    elsif box.group_value is not null then
        return array(select baton_internal.tenant_key(box.group_value, e) from unnest(ids) e order by 1);
    end if;
    execute format('select array_agg(coalesce(t.%1$I, g.id) order by 1) from unnest($1) g (id) left join %2$s t on t.event_id = g.id'
                   ' and ($2 is null or t.lease_token = $2)', box.id_column, box.relation) into keys using ids, lease_token;
    if cardinality(keys) > cardinality(ids) then
        raise exception 'several tenants of inbox "%" have a message with this id', box.name
            using errcode = 'ambiguous_parameter', hint = 'set baton.tenant_id to the tenant of the message';
    end if;
    return coalesce(keys, '{}');
end
$$;
comment on function baton_internal.inbox_message_keys(baton.inboxes, text[], uuid) is 'keys of messages named by their ids';

-- Return the name by which an aggregate is kept.
create function baton_internal.inbox_aggregate_key(box baton.inboxes, aggregate text)
returns text
language plpgsql stable
as $$
begin
    if box.tenancy and box.group_value is null then
        raise exception 'which tenant''s aggregate "%"?', aggregate
            using errcode = 'ambiguous_parameter', hint = 'set baton.tenant_id to the tenant of the aggregate';
    end if;
    return case when box.tenancy then baton_internal.tenant_key(box.group_value, aggregate) else aggregate end;
end
$$;
comment on function baton_internal.inbox_aggregate_key(baton.inboxes, text) is 'key of an aggregate named by its id';

-- Write the end of a condition that keeps a view to what its reader may see.
create function baton_internal.inbox_visible_sql(box baton.inboxes)
returns text
language sql immutable
as $$
    select case when box.tenancy then ' and (t.tenant_id = nullif(current_setting(''baton.tenant_id'', true), '''')'
                                     ' or nullif(current_setting(''baton.tenant_id'', true), '''') is null and (select baton_internal.sees_all_tenants()))'
                else '' end
$$;
comment on function baton_internal.inbox_visible_sql(baton.inboxes) is 'SQL that limits a view to the session''s tenant';

-- Write a query that leaves one message of each id, for tenants may share ids and whoever settles names a message by its id alone.
create function baton_internal.inbox_one_per_id_sql(box baton.inboxes, source text)
returns text
language sql immutable
as $$
    select case when box.tenancy then format('select distinct on (%s) c.* from %s c', baton_internal.tenant_name_sql(box, 'c.id'), source)
                else format('select c.* from %s c', source) end
$$;
comment on function baton_internal.inbox_one_per_id_sql(baton.inboxes, text) is 'query for one message of each id';

-- Make the key column of a managed inbox with tenants, and the rules that keep tenants apart in the table itself.
create function baton_internal.separate_inbox_tenants(relation regclass)
returns void
language plpgsql
as $$
declare
    role_name text;
begin
    execute format('alter table %s alter tenant_id set not null, drop constraint %I, add column message_key text generated always as (%s) stored primary key',
                   relation, (select conname from pg_constraint c where c.conrelid = relation and c.contype = 'p'),
                   baton_internal.tenant_key_sql('tenant_id', 'event_id'));
    execute format('alter table %s enable row level security', relation);
    execute format($sql$create policy baton_tenant on %s
        using (tenant_id = nullif(current_setting('baton.tenant_id', true), ''))
        with check (tenant_id = nullif(current_setting('baton.tenant_id', true), ''))$sql$, relation);
    foreach role_name in array '{baton_relay,baton_operator}'::text[] loop
        if to_regrole(role_name) is not null then
            execute format('create policy %I on %s for select to %I using (true)', role_name, relation, role_name);
        end if;
    end loop;
end
$$;
comment on function baton_internal.separate_inbox_tenants(regclass) is 'keys and row-level security of an inbox with tenants';

select baton_internal.declare_privileges('execute', '{baton_consumer}', '{sees_all_tenants,caller}');
