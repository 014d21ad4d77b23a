-- A stream table shows what its query gave to its maker: settings of whoever refreshes, writes or verifies change nothing.
select no_plan();
select form = 'extension' as is_extension from baton.installation \gset
create table facts (id int primary key, flo float8, raw bytea, cash money, num numeric, at timestamptz, span interval, day date, list text, day_text text, doc text);
insert into facts select g, g / 3.0::float8, decode('00ff41', 'hex'), g::numeric::money, g * 1000.5, timestamptz '2026-02-03 04:05:06.789+00' + g * interval '1 day', interval '1 day 2 hours' * g,
                         date '2026-02-03' + g, '{NULL,a}', '02/03/2026', '<a/>' from generate_series(1, 3) g;
-- The settings that the maker has, none of them a default.
set timezone = 'Asia/Tokyo';
set datestyle = 'SQL, DMY';
set intervalstyle = 'iso_8601';
set extra_float_digits = 0;
set bytea_output = 'escape';
set array_nulls = off;
set xmlbinary = 'hex';
set default_text_search_config = 'pg_catalog.german';
\set shown 'id, flo::text as flo, raw::text as raw, cash::text as cash, to_char(num, ''L9G999D99'') as num, at::text as at, to_char(at, ''TMMonth TZ'') as month, span::text as span, day::text as day, (list::text[])[1] is null as no_list, day_text::date as day_text, to_jsonb(flo) as js, format(''%s %s'', at, flo) as said'
select baton.create_stream_table('followed', format('select %s from facts', :'shown'), null);
select baton.create_stream_table('computed', format('select %s, to_tsvector(doc) as words, doc::xml::text as doc, xmlelement(name x, raw)::text as element from facts', :'shown'), null, 'FULL');
\if :is_extension
select baton.create_stream_table('at_once', format('select %s from facts', :'shown'), null, 'IMMEDIATE');
select results_eq($$ select stream_table, effective_mode from baton.stream_table_status() order by 1 $$,
                  $$ values ('public.at_once', 'IMMEDIATE'), ('public.computed', 'FULL'), ('public.followed', 'DIFFERENTIAL') $$, 'each is refreshed in its own way');
\else
create view at_once as select * from followed;
\endif

-- What the three tables hold, as one text that no setting changes.
create function pg_temp.content()
returns text
language sql
set datestyle = 'ISO' set bytea_output = 'hex' set extra_float_digits = 3 set timezone = 'UTC'
as $$
    select md5(concat((select string_agg(f::text, ';' order by id) from public.followed f), (select string_agg(c::text, ';' order by id) from public.computed c),
                      (select string_agg(a::text, ';' order by id) from public.at_once a)))
$$;

-- Take rows out and in again, refresh and verify, all in the present session. Gives what is wrong.
create function pg_temp.round_trip(before text)
returns text
language plpgsql
as $$
declare
    stream text;
    found record;
    wrong text;
begin
    update public.facts set num = num + 1, flo = flo * 2 where id = 1;
    delete from public.facts where id = 2;
    foreach stream in array '{public.followed,public.computed}'::text[] loop
        perform baton.refresh_stream_table(stream);
    end loop;
    update public.facts set num = num - 1, flo = flo / 2 where id = 1;
    insert into public.facts select 2, 2 / 3.0::float8, raw, 2::numeric::money, 2001.0, at + interval '1 day', interval '1 day 2 hours' * 2, day + 1, list, day_text, doc from public.facts where id = 1;
    foreach stream in array '{public.followed,public.computed}'::text[] loop
        perform baton.refresh_stream_table(stream);
    end loop;
    for stream in select s.relation::text from baton.stream_tables s loop
        select * into found from baton.verify_stream_table(stream);
        wrong := concat_ws('; ', wrong, case when found.missing > 0 or found.surplus > 0 then format('%s: %s missing, %s surplus', stream, found.missing, found.surplus) end);
    end loop;
    return concat_ws('; ', nullif(wrong, ''), case when pg_temp.content() <> before then 'other rows' end);
end
$$;

-- Another value of a setting, null where no other one is to be tried.
create function pg_temp.another_value(s pg_settings)
returns text
language sql
as $$
    select case when s.name in ('client_min_messages', 'transaction_read_only', 'default_transaction_read_only', 'transaction_isolation', 'transaction_deferrable', 'session_replication_role', 'statement_timeout', 'lock_timeout',
                                'idle_in_transaction_session_timeout', 'idle_session_timeout', 'transaction_timeout') then null
                when s.vartype = 'bool' then case s.setting when 'on' then 'off' else 'on' end
                when s.vartype = 'enum' then (select v from unnest(s.enumvals) v where v <> s.setting limit 1)
                when s.vartype in ('integer', 'real') then case when s.setting::numeric = s.min_val::numeric then least(s.max_val::numeric, 100)::text else s.min_val end
                else (select v.value from (values ('TimeZone', 'America/New_York'), ('DateStyle', 'German, MDY'), ('default_text_search_config', 'pg_catalog.english'), ('timezone_abbreviations', 'India'),
                                                  ('lc_monetary', 'C'), ('lc_numeric', 'C'), ('lc_time', 'C'), ('search_path', '')) v (name, value) where v.name = s.name) end
$$;

-- The property: each setting that a session may change and that could speak in.
create function pg_temp.settings_that_matter()
returns table (name text, problem text)
language plpgsql
as $$
declare
    setting pg_settings;
    before constant text := pg_temp.content();
begin
    for setting in select s.* from pg_settings s
                    where (s.context = 'user' or s.context = 'superuser' and (select rolsuper from pg_roles where rolname = current_user))
                      and (s.category like 'Client Connection Defaults%' or s.category like 'Version and Platform%' or s.category = 'Query Tuning / Other Planner Options')
                      and s.name not like 'vacuum%' and pg_temp.another_value(s) is not null
                    order by s.name loop
        begin
            perform set_config(setting.name, pg_temp.another_value(setting), true);
            problem := nullif(pg_temp.round_trip(before), '');
        exception when others then
            problem := sqlerrm;
        end;
        perform set_config(setting.name, setting.setting, true);
        name := setting.name;
        return next;
    end loop;
end
$$;
reset timezone;
reset datestyle;
reset intervalstyle;
reset extra_float_digits;
reset bytea_output;
reset array_nulls;
reset xmlbinary;
reset default_text_search_config;
create temporary table tried as select * from pg_temp.settings_that_matter();
select is(array(select format('%s: %s', name, problem) from tried where problem is not null order by 1), '{}'::text[], 'no setting changes what a stream table shows');
select ok((select count(*) > 25 from tried), 'many were tried');
select ok((select array_agg(name) @> '{TimeZone,DateStyle,IntervalStyle,extra_float_digits,bytea_output,array_nulls,xmlbinary,xmloption,lc_monetary,lc_time,quote_all_identifiers,row_security,transform_null_equals,gin_fuzzy_search_limit,default_text_search_config}'
                  from tried), 'those that speak in are among them');
select results_eq('select flo, raw, at, span, day, no_list, day_text from followed where id = 1',
                  $$ values ('0.333333333333333', '\000\377A', '04/02/2026 13:05:06.789 JST', 'P1DT2H', '04/02/2026', false, date '2026-03-02') $$, 'the maker''s settings count');

-- Stream tables are made, altered and repaired in any session, and are the same then.
create function pg_temp.life(mode text)
returns text
language plpgsql
as $$
begin
    perform baton.create_stream_table('public.made', 'select count(*) as n, case when min(id) > 1 then ''a'' else ''b'' end as "Odd Name" from public.facts', '*/5 * * * mon-fri', mode);
    perform baton.alter_stream_table('public.made', query => 'select count(*) as n, min(id) as least from public.facts', schedule => '0 3 * * *');
    insert into public.facts (id) values (50);
    perform baton.refresh_stream_table('public.made'), baton.repair_stream_table('public.made'), baton.explain_stream_table('public.made');
    perform baton.enable_outbox('public.made');
    delete from public.facts where id = 50;
    perform baton.refresh_stream_table('public.made');
    return (select format('%s %s %s: ', s.effective_mode, s.last_mode, (select count(*) from pg_index i where i.indrelid = s.relation)) || coalesce(s.delta, '') || s.qualified from baton.stream_tables s where s.relation = 'public.made'::regclass);
end
$$;
select case when :'is_extension' then 'DIFFERENTIAL' else 'FULL' end as mode \gset
select pg_temp.life(:'mode') as plain_life \gset
select baton.drop_stream_table('public.made');
set quote_all_identifiers = on;
select is(pg_temp.life(:'mode'), :'plain_life', 'in a session that quotes all identifiers');
reset quote_all_identifiers;
select lives_ok($$ select baton.refresh_stream_table('public.made'), baton.repair_stream_table('public.made') $$, 'and in another one then');
select is((select missing + surplus from baton.verify_stream_table('public.made')), 0::bigint, 'all is right');
select baton.drop_stream_table('public.made');
set standard_conforming_strings = off;
set backslash_quote = on;
set escape_string_warning = off;
select pg_temp.life(:'mode') as backslash_life \gset
reset standard_conforming_strings;
reset backslash_quote;
reset escape_string_warning;
select is(:'backslash_life'::text, :'plain_life', 'in a session with backslashes in its texts');
select baton.drop_stream_table('public.made');
set search_path = '';
select pg_temp.life(:'mode') as pathless_life \gset
reset search_path;
select is(:'pathless_life'::text, :'plain_life', 'in a session without a search path');

-- A refresh and a comparison leave the session's parameters alone, and take no others from what is noted.
update baton.stream_tables set parameters = parameters || '{"work_mem": "64kB", "session_replication_role": "replica"}';
create function pg_temp.parameters()
returns jsonb
language sql
as $$ select jsonb_object_agg(name, setting) from pg_settings $$;
create function pg_temp.parameters_change(action text)
returns boolean
language plpgsql
as $$
declare
    before constant jsonb := pg_temp.parameters();
begin
    execute action;
    return pg_temp.parameters() <> before;
end
$$;
select is(pg_temp.parameters_change($$ insert into facts (id) values (60) $$), false, 'a writer keeps its settings');
select is(pg_temp.parameters_change($$ select baton.refresh_stream_table('followed') $$), false, 'so does who refreshes');
select is(pg_temp.parameters_change($$ select baton.verify_stream_table('followed') $$), false, 'and who compares');
select is(pg_temp.parameters_change($$ select baton.create_stream_table('one_more', 'select id from facts') $$), false, 'and who makes one');

select * from finish();
