-- Names and words of somebody who means harm. What is red about them is red on every page that shows it.
begin;
select baton.create_outbox('"<img src=x onerror=hacked()>"');
select baton.create_consumer_group('<script>hacked()</script>', '"<img src=x onerror=hacked()>"', 'earliest', max_attempts => 1);
select baton.publish('"<img src=x onerror=hacked()>"', '"><svg onload=hacked()>',
                     jsonb_build_object('html', '</pre><script>hacked()</script>', 'rtl', E'\u202Egpj.exe', 'quote', '''";--', 'large', repeat('<b>large</b> ', 8000)),
                     aggregate_id => E'javascript:hacked()\u202Edlrow', headers => '{"<i>": "{{hacked()}}"}');
select baton.create_inbox('"<svg onload=hacked()>"');
select baton.receive('"<svg onload=hacked()>"', '<i onmouseover=hacked()>id', '<script>hacked()</script>', '{}');
select baton.fail_inbox('"<svg onload=hacked()>"', array['<i onmouseover=hacked()>id'], '<img src=x onerror=hacked()>', permanent => true);
select baton.set_pipeline('<img src=x onerror=hacked()>', '{"source": {"outbox": "orders"}, "sink": {"type": "null"}}', enabled => false);
create table "<b>sales" (product text, amount int);
select baton.create_stream_table('"<iframe src=javascript:hacked()>"', 'select product, sum(amount) as amount from "<b>sales" group by product');
select baton.create_outbox('tenants', tenancy => true);
select baton.create_consumer_group('of a tenant', 'tenants', 'earliest', tenant_id => '<img src=x onerror=hacked()>');
select baton.publish('tenants', 'made', '{}', tenant_id => '<img src=x onerror=hacked()>');
commit;
begin;
select baton.fail_events('<script>hacked()</script>', '<b onmouseover=hacked()>worker', array_agg(id), E'<img src=x onerror=hacked()> \u202Ereversed', lease_token => (array_agg(lease_token))[1])
  from baton.poll_outbox('<script>hacked()</script>', '<b onmouseover=hacked()>worker', 1);
commit;
