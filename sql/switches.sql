-- Switches: outbox_enabled and inbox_enabled as functions whose body is their answer. The planner puts the answer into each plan, and the server makes
-- such plans anew when the body changes: so a call that meets a switch that is on pays nothing for the question, and one that is turned off is
-- off for everybody with the next statement. A session that has set the parameter gets the answer "off" and asks baton.setting().

create function baton_internal.publishing_is_on()
returns boolean
language sql stable
return coalesce(pg_catalog.current_setting('baton.outbox_enabled', true), '') = '' and true;
comment on function baton_internal.publishing_is_on() is 'true when publishing is surely on; else baton.setting() knows';

create function baton_internal.receiving_is_on()
returns boolean
language sql stable
return coalesce(pg_catalog.current_setting('baton.inbox_enabled', true), '') = '' and true;
comment on function baton_internal.receiving_is_on() is 'true when receiving is surely on; else baton.setting() knows';

-- Write the answers into the switches when their settings change.
create function baton_internal.turn_switch()
returns trigger
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    switch record;
begin
    for switch in
        select w.function, d.name, coalesce(s.value, d.value)::boolean::text as is_on
          from (values ('outbox_enabled', 'publishing_is_on'), ('inbox_enabled', 'receiving_is_on')) as w (name, function)
          join baton.setting_defaults d on d.name = w.name
          left join baton.settings s on s.name = d.name
         where d.name in (new.name, old.name)
    loop
        execute format('create or replace function baton_internal.%s() returns boolean language sql stable '
                       'return coalesce(pg_catalog.current_setting(%L, true), '''') = '''' and %s', switch.function, 'baton.' || switch.name, switch.is_on);
    end loop;
    return null;
end
$$;
comment on function baton_internal.turn_switch() is 'row trigger of baton.settings: what is stored becomes the answer of a switch';

create trigger turn_switch after insert or update or delete on baton.settings for each row execute function baton_internal.turn_switch();
alter table baton.settings enable always trigger turn_switch;  -- a restore may switch triggers off

-- The tenant of the session.
create function baton_internal.session_tenant()
returns text
language sql stable
return nullif(pg_catalog.current_setting('baton.tenant_id', true), '');
comment on function baton_internal.session_tenant() is 'the parameter baton.tenant_id; null when it is not set';

select baton_internal.declare_privileges('execute', '{baton_producer,baton_operator}', '{publishing_is_on,session_tenant}');
