// What may be wrong with the server that carries baton: transactions, snapshots, bloat, settings, roles,
// versions.

#include "operations/checks.hpp"

namespace baton::operations {

namespace {

// A session may say what is long, and what is old: PGOPTIONS="-c baton.long_transaction_seconds=60".
const Check long_transactions{"long transactions", true, R"sql(
    with long as (select make_interval(secs => coalesce(nullif(current_setting('baton.long_transaction_seconds', true), '')::float8, 900)) as bound)
    select 'warning' as severity, format('pid %s', a.pid) as object,
           format('%s (%s) has a transaction open since %s: %s', a.usename, coalesce(nullif(a.application_name, ''), 'unnamed'), to_char(a.xact_start, 'HH24:MI:SS'), left(a.query, 80)) as what,
           format('select pg_terminate_backend(%s);', a.pid) as fix, 'ends the session and rolls back; better is to end the transaction in the application' as note
      from pg_stat_activity a, long
     where a.datname = current_database() and a.xact_start < clock_timestamp() - long.bound and a.backend_type = 'client backend' and a.pid <> pg_backend_pid()
    union all
    select 'error', x.gid, format('a prepared transaction of %s is open since %s and keeps its events back', x.owner, to_char(x.prepared, 'YYYY-MM-DD HH24:MI')),
           format('rollback prepared %L;', x.gid), format('ask its transaction manager first; where the decision was to commit: commit prepared %L;', x.gid)
      from pg_prepared_xacts x, long where x.database = current_database() and x.prepared < clock_timestamp() - long.bound)sql"};

const Check hidden_sessions{"sight of other sessions", false, R"sql(
    select 'warning' as severity, current_user::text as object, 'sees only its own sessions: long transactions of others, and what they hold, are hidden' as what,
           format('grant pg_read_all_stats to %I;', current_user) as fix, 'as a superuser' as note
     where not pg_has_role('pg_read_all_stats', 'usage'))sql"};

// Rows that a snapshot may still see stay, and so does the WAL that a slot has not read. A slot's or a
// standby's snapshot has no time: its age is counted in transactions.
const Check held_snapshots{"held snapshots", false, R"sql(
    with old as (select coalesce(nullif(current_setting('baton.old_snapshot_transactions', true), '')::int, 1000000) as bound)
    select 'warning' as severity, s.slot_name::text as object, 'the replication slot is not read and keeps dead rows and WAL' as what,
           format('select pg_drop_replication_slot(%L);', s.slot_name) as fix, 'only if its reader will not come back; else start the reader' as note
      from pg_replication_slots s where not s.active
    union all
    select 'warning', s.slot_name, format('the replication slot holds a snapshot that is %s transactions old: dead rows stay', greatest(age(s.xmin), age(s.catalog_xmin))),
           format('select pg_terminate_backend(%s);', s.active_pid),
           'its reader begins again where it was. A standby holds it for its queries: end the long one there, or: alter system set hot_standby_feedback = off; select pg_reload_conf();'
      from pg_replication_slots s, old where s.active and greatest(age(s.xmin), age(s.catalog_xmin)) > old.bound
    union all
    select 'warning', coalesce(nullif(r.application_name, ''), host(r.client_addr), 'standby'), format('the standby holds a snapshot that is %s transactions old: dead rows stay', age(r.backend_xmin)),
           format('select pid, client_addr, application_name, backend_xmin from pg_stat_replication where pid = %s;', r.pid),
           'on the standby: end the long query, or: alter system set hot_standby_feedback = off; select pg_reload_conf();'
      from pg_stat_replication r, old where age(r.backend_xmin) > old.bound
    union all
    select 'error', d.datname, format('%s transactions until the server stops to protect its data', 2000000000 - age(d.datfrozenxid)), 'vacuum (freeze);',
           'in this database, as its owner; what holds a snapshot must end first'
      from pg_database d where d.datname = current_database() and age(d.datfrozenxid) > 1500000000)sql"};

const Check bloat{"bloat", false, R"sql(
    select 'warning' as severity, format('%I.%I', t.schemaname, t.relname) as object,
           format('%s dead rows beside %s live ones, last vacuum %s', t.n_dead_tup, t.n_live_tup, coalesce(to_char(greatest(t.last_vacuum, t.last_autovacuum), 'YYYY-MM-DD HH24:MI'), 'never')) as what,
           format('vacuum %I.%I;', t.schemaname, t.relname) as fix, 'if it does not help, something holds a snapshot: see long transactions and slots' as note
      from pg_stat_user_tables t
     where t.n_dead_tup > 100000 and t.n_dead_tup > 2 * t.n_live_tup
       and (t.schemaname = 'baton_internal' or t.relid in (select i.relation from baton.inboxes i union select to_regclass(format('%I.%I', a.schema_name, a.table_name)) from baton.adopted_outboxes a)))sql"};

const Check settings_of_baton{"settings of baton", true, R"sql(
    select 'warning' as severity, s.name as object, s.what, format('select baton.set_setting(%L, %L);', s.name, d.value) as fix, null as note
      from (values ('outbox_enabled', 'off', 'publish() refuses events'), ('inbox_enabled', 'off', 'receive() refuses messages'),
                   ('outbox_force_retention', 'on', 'retention drops events that groups have not read')) s (name, value, what)
      join baton.setting_defaults d using (name) where baton.setting(s.name) = s.value)sql"};

// A setting is mended where it was made: in the configuration, or for a database or a role.
const Check settings_of_server{"settings of the server", false, R"sql(
    with watched (name, severity, what) as (values
        ('fsync', 'error', 'a crash may lose everything'), ('full_page_writes', 'error', 'a crash may tear pages'),
        ('synchronous_commit', 'warning', 'a crash loses the events of the last moments, although their publishers were told otherwise'),
        ('autovacuum', 'warning', 'tables grow without bound'), ('track_counts', 'warning', 'autovacuum and rates see nothing'))
    select w.severity, w.name as object, 'is off: ' || w.what as what, format('alter system set %s = on; select pg_reload_conf();', w.name) as fix,
           case s.source when 'command line' then 'first take it from the command line that starts the server, and restart the server' end as note
      from watched w join pg_settings s using (name) where s.setting = 'off' and s.source not in ('database', 'user', 'database user', 'client', 'session', 'interactive')
    union all
    select w.severity, w.name, format('is off for %s: ', concat_ws(' in ', 'role ' || nullif(r.setrole, 0)::regrole, (select format('database %I', d.datname) from pg_database d where d.oid = r.setdatabase))) || w.what,
           case when r.setrole = 0 then format('alter database %I reset %s;', current_database(), w.name)
                when r.setdatabase = 0 then format('alter role %s reset %s;', r.setrole::regrole, w.name)
                else format('alter role %s in database %I reset %s;', r.setrole::regrole, current_database(), w.name) end, 'for sessions that begin from now on'
      from pg_db_role_setting r cross join lateral unnest(r.setconfig) c join watched w on lower(c) in (w.name || '=off', w.name || '=false', w.name || '=no', w.name || '=0')
     where r.setdatabase in (0, (select d.oid from pg_database d where d.datname = current_database())))sql"};

const Check preload{"preload", false, R"sql(
    select 'warning' as severity, 'shared_preload_libraries' as object, 'the extension is not preloaded: the server runs no jobs by itself' as what,
           'alter system set shared_preload_libraries = ' || (select string_agg(quote_literal(l), ', ' order by l = 'baton', l)
                from (select btrim(x, ' "') from unnest(string_to_array(s.setting, ',')) x union select 'baton') a (l) where l <> '') || ';' as fix,
           concat(case s.source when 'command line' then 'take it from the command line that starts the server; ' end, 'then restart the server') as note
      from baton.installation i join pg_settings s on s.name = 'shared_preload_libraries' where i.form = 'extension' and s.setting !~ '(^|[ ,"/])baton($|[ ,"])')sql"};

const Check extension_files{"files of the extension", false, R"sql(
    select 'warning' as severity, 'extension' as object, format('the server''s files are of version %s, the database has %s', e.default_version, e.installed_version) as what,
           case when exists (select from pg_extension_update_paths('baton') u where u.source = e.installed_version and u.target = e.default_version and u.path is not null)
                then 'alter extension baton update;' else 'select * from pg_available_extension_versions where name = ''baton'';' end as fix,
           case when exists (select from pg_extension_update_paths('baton') u where u.source = e.installed_version and u.target = e.default_version and u.path is not null)
                then 'as a superuser' else format('install the files of version %s or later on the server''s machine', e.installed_version) end as note
      from pg_available_extensions e where e.name = 'baton' and e.installed_version <> e.default_version)sql"};

const Check roles{"roles", false, R"sql(
    select 'warning' as severity, r.name as object, 'the role does not exist' as what, format('create role %I nologin; select baton.grant_roles();', r.name) as fix,
           'as a superuser' as note
      from unnest('{baton_producer,baton_consumer,baton_relay,baton_operator,baton_viewer}'::text[]) r (name) where to_regrole(r.name) is null
    union all
    select 'warning', current_user::text, 'may look, and may not mend', format('grant baton_operator to %I;', current_user), 'as a superuser'
     where not has_function_privilege('baton.replay_dead_letters(bigint[], boolean)', 'execute'))sql"};

const Check privileges{"privileges of roles", false, R"sql(
    select 'warning' as severity, x.role_name as object, format('lacks %s of %s privileges that baton gives it: %s first', count(*) filter (where not x.has), count(*), min(x.privilege) filter (where not x.has)) as what,
           'select baton.grant_roles();' as fix, 'as baton''s owner' as note
      from (select p.role_name, 'execute on ' || f.oid::regprocedure as privilege,
                   has_function_privilege(p.role_name, f.oid, 'execute') and has_schema_privilege(p.role_name, f.pronamespace, 'usage') as has
              from baton_internal.role_privileges p join pg_proc f on f.proname = p.object and f.pronamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace)
             where p.privilege = 'execute' and to_regrole(p.role_name) is not null
            union all
            select p.role_name, 'select on ' || c.oid::regclass, has_table_privilege(p.role_name, c.oid, 'select')
              from baton_internal.role_privileges p join pg_class c on c.relname = p.object and c.relnamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace)
             where p.privilege = 'select' and to_regrole(p.role_name) is not null) x
     group by x.role_name having not bool_and(x.has))sql",
                       "has_table_privilege('baton_internal.role_privileges', 'select')"};

// What a role needs on each outbox is given when the outbox is made: a role that came later, or a restore
// without roles, lacks it. Nobody publishes into an outbox that baton itself fills, of a stream table or of a
// captured table: a captured table's triggers hold the outbox's number.
const Check outbox_privileges{"privileges on outboxes", false, R"sql(
    select 'warning' as severity, r.role_name as object, format('may not %s outbox %s', r.word, n.name) as what,
           case r.role_name when 'baton_producer'
                then format('grant insert (%s), select (id) on %s to baton_producer;',
                            (select string_agg(quote_ident(a.attname), ', ' order by a.attnum) from pg_attribute a
                              where a.attrelid = o.relation and a.attnum > 0 and not a.attisdropped and a.attname not in ('xid', 'id')), n.name)
                else format('grant select on %s to %I;', n.name, r.role_name) end as fix, 'as baton''s owner' as note
      from baton.outboxes o join pg_class c on c.oid = o.relation cross join lateral format('%s.%I', c.relnamespace::regnamespace, c.relname) n (name)
     cross join (values ('baton_producer', 'publish into'), ('baton_relay', 'read'), ('baton_operator', 'read')) r (role_name, word)
     where to_regrole(r.role_name) is not null
       and not (r.role_name = 'baton_producer'
                and (exists (select from baton.stream_table_status() s where s.outbox = n.name)
                     or exists (select from pg_trigger t where t.tgname = '~baton_captured_truncate' and split_part(encode(t.tgargs, 'escape'), E'\\000', 1) = o.outbox_id::text)))
       and not case r.role_name when 'baton_producer' then has_column_privilege(r.role_name, o.relation, 'payload', 'insert') else has_table_privilege(r.role_name, o.relation, 'select') end)sql"};

}  // namespace

std::vector<Check> checks_of_server() {
    return {long_transactions,  hidden_sessions, held_snapshots,  bloat, settings_of_baton,
            settings_of_server, preload,         extension_files, roles, privileges,
            outbox_privileges};
}

}  // namespace baton::operations
