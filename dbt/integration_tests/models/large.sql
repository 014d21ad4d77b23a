{{ config(schedule=var('schedule', '5s'), inbox_config={'name': 'payments', 'max_retries': 5}) }}
select customer, total from {{ ref('totals') }} where total > 100
