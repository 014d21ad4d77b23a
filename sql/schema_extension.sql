-- The schema of what is internal; the extension itself makes schema baton.

create schema baton_internal;
comment on schema baton is 'transactional outbox, inbox and relay: the public API';
comment on schema baton_internal is 'the inside of baton: everything in it may change with any version';
