-- Make a UUID of version 7: 48 bits of milliseconds, then random bits.
create function baton.uuid_v7(at timestamptz default clock_timestamp())
returns uuid
language c volatile strict parallel safe
as 'MODULE_PATHNAME', 'baton_uuid_v7';
comment on function baton.uuid_v7(timestamptz) is 'time-ordered UUID (version 7)';

-- This cluster's identity, as pg_control_system() gives it, without a look into a file.
create function baton_internal.system_identifier()
returns bigint
language c stable
as 'MODULE_PATHNAME', 'baton_system_identifier';
comment on function baton_internal.system_identifier() is 'identity of this cluster';
