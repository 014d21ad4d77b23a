-- The schemas, where no extension makes them. An administrator may have made them for a user who may create none.

do $$
begin
    if to_regnamespace('baton') is null then
        create schema baton;
    end if;
    if to_regnamespace('baton_internal') is null then
        create schema baton_internal;
    end if;
end
$$;
comment on schema baton is 'transactional outbox, inbox and relay: the public API';
comment on schema baton_internal is 'the inside of baton: everything in it may change with any version';
