-- Changes are not kept for ever for a stream table that nobody refreshes: beyond stream_buffer_rows it begins anew. It is right all the same.
select no_plan();
select form = 'extension' as is_extension from baton.installation \gset
\if :is_extension
create table facts (id int, kind int);
insert into facts select n, n % 5 from generate_series(1, 100) n;
select baton.create_stream_table('by_hand', 'select kind, count(*) as n from facts group by kind', null, 'DIFFERENTIAL'),
       baton.create_stream_table('paused', 'select id from facts where kind = 1', '1 hour', 'DIFFERENTIAL'),
       baton.create_stream_table('failing', 'select 1 / id as one from facts', '1 hour', 'DIFFERENTIAL'),
       baton.create_stream_table('later', 'select sum(id) as ids from facts', '1 hour', 'DIFFERENTIAL'),
       baton.create_stream_table('at_once', 'select max(id) as id from facts', null, 'IMMEDIATE');
select baton.refresh_stream_table(s.relation::text) from baton.stream_tables s;  -- the last one changed the capture
select baton.alter_stream_table('paused', paused => true);
update baton.stream_tables set failed_in_a_row = 1 where relation = 'failing'::regclass;
select baton.set_setting('stream_buffer_rows', '1000');
select baton_internal.change_buffer('facts') as buffer \gset
create function anew() returns text language sql as $$ select string_agg(stream_table, ' ' order by stream_table) from baton.stream_table_status() where reason is not null $$;
create function wrong() returns text language sql as $$
    select string_agg(s.relation::text, ', ') from baton.stream_tables s cross join lateral baton.verify_stream_table(s.relation::text) v where v.missing + v.surplus > 0 $$;

insert into facts select n, n % 5 from generate_series(101, 1100) n;
select baton_internal.tidy_captures(true);
select is(anew(), null, 'as many changes as the limit are kept');
select is((select count(*)::int from baton_internal.stream_sources s join baton.stream_tables t using (stream_id) where t.source_state is null), 0, 'for everybody');
insert into facts values (1101, 1);
select baton_internal.tidy_captures(true);
select is(anew(), 'public.by_hand public.failing public.paused', 'with one more those begin anew that nobody refreshes');
select matches((select reason from baton.stream_table_status('by_hand')), 'more changes of public.facts were waiting than stream_buffer_rows \(1000\) lets be kept', 'the status says why');
select matches((select string_agg(e, E'\n') from baton.explain_stream_table('by_hand') e), 'the next refresh computes everything: more changes', 'so does the explanation');
select is((select count(*)::int from only pg_class where oid = :'buffer'::regclass), 1, 'the buffer stays');
select results_eq('select count(*)::int from ' || :'buffer', '{1001}'::int[], 'with what others have not seen');
select is((select mode from baton.refresh_stream_table('later')), 'DIFFERENTIAL', 'who has a schedule goes on');
select baton_internal.tidy_captures(true);
select results_eq('select count(*)::int from ' || :'buffer', '{0}'::int[], 'then nothing is kept');
update facts set kind = kind + 1 where id < 50;
select is((select mode from baton.refresh_stream_table('by_hand')), 'FULL', 'the next refresh computes everything');
select is(anew(), 'public.failing public.paused', 'and that is told no more');
insert into facts values (2000, 3);
select is((select mode from baton.refresh_stream_table('by_hand')), 'DIFFERENTIAL', 'from there on it goes on');
select baton.alter_stream_table('paused', paused => false);
select baton.refresh_stream_table(s.relation::text) from baton.stream_tables s;
select is(wrong(), null, 'all are right');

-- in the midst of a look that finds nothing to do
insert into facts select n, 1 from generate_series(20000, 23000) n;
create function looked() returns boolean language plpgsql as $$
declare
    stream constant baton.stream_tables := (select s from baton.stream_tables s where s.relation = 'by_hand'::regclass);
begin
    perform baton_internal.study_stream(stream), baton_internal.tidy_captures(true);
    return baton_internal.is_current(stream);
end $$;
select baton.refresh_stream_table('later'), baton.refresh_stream_table('paused'), baton.refresh_stream_table('failing');
select is(looked(), false, 'changes that are dropped while somebody looks are not taken for none');
select is((select mode from baton.refresh_stream_table('by_hand')), 'FULL', 'they are there');
select baton.refresh_stream_table(s.relation::text) from baton.stream_tables s;
select is(wrong(), null, 'and all is right');

select baton.set_setting('stream_buffer_rows', '0');
insert into facts select n, 1 from generate_series(3000, 9000) n;
select baton_internal.tidy_captures(true);
select is(anew(), null, 'without a limit all are kept');
select is((select mode from baton.refresh_stream_table('by_hand')), 'DIFFERENTIAL', 'and followed');
\else
select hasnt_function('baton_internal', 'capture_changes', 'without the extension nothing is captured');
\endif
select * from finish();
