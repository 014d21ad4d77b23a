-- The schema, where no extension makes it. An administrator may have made it for a user who may create none.

do $$
begin
    if to_regnamespace('baton') is null then
        create schema baton;
    end if;
end
$$;
comment on schema baton is 'transactional outbox, inbox and relay catalog';
