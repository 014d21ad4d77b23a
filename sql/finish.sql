-- Runs last: nothing in the schemas is open to everybody, the roles get what was declared.

revoke all on all functions in schema baton, baton_internal from public;
revoke all on all procedures in schema baton, baton_internal from public;
revoke all on all tables in schema baton, baton_internal from public;
select baton.grant_roles();
