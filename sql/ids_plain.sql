-- Make a UUID of version 7: 48 bits of milliseconds, then random bits.
create function baton.uuid_v7(at timestamptz default clock_timestamp())
returns uuid
language sql volatile parallel safe
return encode(
    set_byte(
        overlay(uuid_send(gen_random_uuid())
                placing substring(int8send(floor(extract(epoch from at) * 1000)::bigint) from 3) from 1 for 6),
        6, (get_byte(uuid_send(gen_random_uuid()), 6) & 15) | 112),
    'hex')::uuid;
comment on function baton.uuid_v7(timestamptz) is 'time-ordered UUID (version 7)';

-- This cluster's identity.
create function baton_internal.system_identifier()
returns bigint
language sql stable
as $$ select system_identifier from pg_catalog.pg_control_system() $$;
comment on function baton_internal.system_identifier() is 'identity of this cluster';
