-- Alerts: one channel, baton_alert, JSON with `event`, `at`, `object` and what else helps.

-- Send an alert when this transaction commits.
create function baton_internal.alert(event text, object text, details jsonb default '{}')
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    body jsonb := details || jsonb_build_object('event', event, 'at', clock_timestamp(), 'object', object);
begin
    if octet_length(body::text) > 7900 then  -- a notification carries less than 8000 bytes
        body := jsonb_build_object('event', event, 'at', clock_timestamp(), 'object', left(object, 1000), 'truncated', true);
    end if;
    perform pg_notify('baton_alert', body::text);
end
$$;
comment on function baton_internal.alert(text, text, jsonb) is 'sends {event, at, object, ...} on channel baton_alert at commit';
