-- The schema, where no extension makes it.

create schema if not exists baton;
comment on schema baton is 'transactional outbox, inbox and relay catalog';
