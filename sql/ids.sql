-- Time-ordered identifiers: UUID version 7 (ids_plain.sql or ids_extension.sql makes it), and the same 128 bits as a ULID
-- of 26 characters.

-- Write a UUID's 128 bits in Crockford base 32.
create function baton.uuid_to_ulid(id uuid)
returns text
language sql immutable strict parallel safe
as $$
    select string_agg(substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ',
                             (substring(('00' || bits)::text from n * 5 + 1 for 5)::bit(5)::int) + 1, 1), '' order by n)
      from (select ('x' || replace(id::text, '-', ''))::bit(128)::text as bits) b, generate_series(0, 25) n
$$;
comment on function baton.uuid_to_ulid(uuid) is 'the ULID with the same bits';

-- Read a ULID back into a UUID.
create function baton.ulid_to_uuid(ulid text)
returns uuid
language plpgsql immutable strict parallel safe
as $$
declare
    cleaned text := translate(upper(ulid), 'ILO', '110');
    bits text;
begin
    if cleaned !~ '^[0-7][0-9A-HJKMNP-TV-Z]{25}$' then
        raise exception 'not a ULID: "%"', left(ulid, 40)
            using errcode = 'invalid_text_representation', hint = 'a ULID has 26 characters of Crockford base 32';
    end if;
    select string_agg((strpos('0123456789ABCDEFGHJKMNPQRSTVWXYZ', substr(cleaned, n, 1)) - 1)::bit(5)::text, '' order by n)
      into bits from generate_series(1, 26) n;
    return encode(bit_send_bytes.b, 'hex')::uuid
      from (select substring(varbit_send(substring(bits from 3)::varbit) from 5) as b) bit_send_bytes;
end
$$;
comment on function baton.ulid_to_uuid(text) is 'the UUID with the same bits as a ULID';

-- Make a ULID.
create function baton.ulid()
returns text
language sql volatile parallel safe
as $$ select baton.uuid_to_ulid(baton.uuid_v7()) $$;
comment on function baton.ulid() is 'time-ordered identifier of 26 characters';

-- Read the time out of a version 7 UUID.
create function baton.uuid_v7_time(id uuid)
returns timestamptz
language sql immutable strict parallel safe
as $$ select pg_catalog.to_timestamp((('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint) / 1000.0) $$;
comment on function baton.uuid_v7_time(uuid) is 'when a version 7 UUID was made, to the millisecond';

select baton_internal.declare_privileges('execute', '{baton_producer,baton_consumer,baton_relay,baton_operator,baton_viewer}',
                                '{uuid_v7,uuid_to_ulid,ulid_to_uuid,ulid,uuid_v7_time}');
