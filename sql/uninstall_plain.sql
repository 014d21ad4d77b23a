-- Without the extension nothing goes by itself: baton.uninstall() drops what baton made.

create function baton_internal.tie_relation(relation oid)
returns void
language sql
as $$ select $$;
comment on function baton_internal.tie_relation(oid) is 'nothing: without the extension, baton.uninstall() drops what baton made';
