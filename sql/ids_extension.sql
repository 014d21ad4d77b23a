-- Make a UUID of version 7: 48 bits of milliseconds, then random bits.
create function baton.uuid_v7(at timestamptz default clock_timestamp())
returns uuid
language c volatile strict parallel safe
as 'MODULE_PATHNAME', 'baton_uuid_v7';
comment on function baton.uuid_v7(timestamptz) is 'time-ordered UUID (version 7)';
