-- Pipelines in the catalog, and secrets that must not get there.
begin;
select no_plan();

select baton.create_outbox('orders');
select lives_ok($$select baton.set_pipeline('out', '{"source": {"outbox": "orders"}, "sink": {"type": "file", "path": "x.jsonl"}}')$$,
                'a pipeline is made');
select results_eq($$select name, enabled, outbox, group_name, sink, owner, revision from baton.list_pipelines()$$,
                  $$values ('out', true, 'orders', 'out', 'file', null::text, 1::bigint)$$, 'and listed');
select lives_ok($$select baton.disable_pipeline('out')$$, 'it is switched off');
select lives_ok($$select baton.enable_pipeline('out')$$, 'and on');
select is((select revision from baton.pipelines), 3::bigint, 'each change is a revision');
select is((select count(*) from baton.audit_trail where object = 'out'), 3::bigint, 'and recorded');

select throws_ok($$select baton.enable_pipeline('none')$$, '42704', 'there is no pipeline "none"', 'an unknown one cannot be switched');
select throws_ok($$select baton.delete_pipeline('none')$$, '42704', null, 'nor deleted');
select is(baton.delete_pipeline('none', if_exists => true), false, 'unless it need not exist');
select throws_ok($$select baton.set_pipeline('', '{}')$$, '22023', null, 'a name is needed');
select throws_ok($$select baton.set_pipeline('x', '[]')$$, '22023', null, 'settings are an object');
select throws_ok($$select baton.set_pipeline('x', '{"source": {"outbox": "o"}}')$$, '22023', 'pipeline "x": sink.type is missing', 'a sink is needed');
select throws_ok($$select baton.set_pipeline('x', '{"sink": {"type": "null"}}')$$, '22023', 'pipeline "x": source.outbox is missing', 'a source too');
select lives_ok($$select baton.set_pipeline('in', '{"source": {"type": "kafka", "topic": "orders"}, "sink": {"type": "postgres", "inbox": "arrivals"}}')$$,
                'a broker is a source as well');
select results_eq($$select outbox, group_name, sink from baton.list_pipelines() where name = 'in'$$, $$values (null::text, null::text, 'postgres')$$,
                  'and has no group here');
select throws_ok($$select baton.set_pipeline('x', '{"source": {"type": "outbox"}, "sink": {"type": "null"}}')$$, '22023',
                 'pipeline "x": source.outbox is missing', 'an outbox needs a name');
select throws_ok($$select baton.set_pipeline('x', '{"source": {"outbox": "o"}, "sink": {"type": "null"}, "sinks": {}}')$$, '22023',
                 'pipeline "x": sinks is not a part of a pipeline', 'unknown parts are refused');

select throws_ok($$select baton.set_pipeline('x', '{"source": {"outbox": "o"}, "sink": {"type": "kafak"}}')$$, '22023',
                 'pipeline "x": there is no sink of type "kafak"', 'a sink that does not exist is refused');
select throws_ok($$select baton.set_pipeline('x', '{"source": {"type": "pigeon"}, "sink": {"type": "null"}}')$$, '22023',
                 'pipeline "x": there is no source of type "pigeon"', 'a source that does not exist too');

select throws_ok(format($$select baton.set_pipeline('x', %L)$$, jsonb_build_object('source', '{"outbox": "o"}'::jsonb, 'sink', secret)), '22023', null,
                 'a secret in clear is refused: ' || secret::text)
  from unnest(array['{"type": "kafka", "sasl.password": "s3cret"}', '{"type": "http", "signing_secret": "whsec_x"}',
                    '{"type": "kafka", "kafka": {"sasl": {"password": "x"}}}', '{"type": "nats", "url": "nats://me:pw@host"}',
                    '{"type": "postgres", "url": "host=x password=y"}', '{"type": "sqs", "secret_access_key": "x"}',
                    '{"type": "http", "token": "${env:A}x"}']::jsonb[]) secret;
select lives_ok($$select baton.set_pipeline('x', '{"source": {"outbox": "o"}, "sink": {"type": "nats", "password": "${env:PW}", "url": "nats://me:${env:PW}@host"}}')$$,
                'a reference to a secret is fine');

select is(baton_internal.take_lead('one'), true, 'the first relay leads');
select is(baton_internal.take_lead('two'), false, 'a second does not');
select is(baton_internal.take_lead('one'), true, 'the first may go on');
update baton_internal.relay_leader set until = clock_timestamp() - interval '1 s';
select is(baton_internal.take_lead('two'), true, 'until its lease is over');

select is(baton.delete_pipeline('out'), true, 'a pipeline is deleted');
select * from finish();
rollback;
