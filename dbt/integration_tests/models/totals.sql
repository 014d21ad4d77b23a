{{ config(schedule=none, refresh_mode='FULL', outbox_enabled=true, consumer_group='totals-to-file', indexes=[{'columns': ['customer'], 'unique': true}]) }}
select customer, sum(amount) as total, count(*) as orders{% if var("more", false) %}, max(amount) as most{% endif %} from shop.orders where amount > {{ var('above', 0) }} group by customer
