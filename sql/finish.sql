-- Runs last: nothing in the schema is open to everybody, the roles get what was declared.

revoke all on all functions in schema baton from public;
revoke all on all procedures in schema baton from public;
revoke all on all tables in schema baton from public;
select baton.grant_roles();
