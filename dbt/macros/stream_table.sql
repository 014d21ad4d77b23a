{#- A model as a stream table of baton. The first run makes it; later runs change what differs, and nothing else: the rows, indexes, outbox and groups stay. -#}
{% materialization stream_table, adapter='postgres' %}
  {%- set target = this.incorporate(type='table') -%}
  {%- set existing = load_cached_relation(this) -%}
  {%- set schedule = config.get('schedule', '1s') -%}
  {%- set refresh_mode = (config.get('refresh_mode') or 'AUTO') | upper -%}
  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}
  {%- do baton.baton_create_inbox(config.get('inbox_config')) -%}
  {%- set known = baton.baton_stream_table(target) if existing is not none else none -%}
  {%- if existing is not none and known is none -%}
    {%- do adapter.drop_relation(existing) -%}
  {%- endif -%}

  {%- if known is none %}
    {%- call statement('main') -%}
      select baton.create_stream_table({{ baton.baton_name(target) }}, {{ baton.baton_literal(sql) }}, {{ baton.baton_literal(schedule) }}, {{ baton.baton_literal(refresh_mode) }})
    {%- endcall -%}
    {%- do create_indexes(target) -%}
  {%- else -%}
    {%- set changes = baton.baton_changes(known, sql, schedule, refresh_mode) -%}
    {%- call statement('main') -%}
      select {% if changes -%}
        baton.alter_stream_table({{ baton.baton_name(target) }}, {{ changes | join(', ') }})
      {%- else -%} null {%- endif %}
    {%- endcall -%}
    {%- if should_full_refresh() -%}
      {%- do run_query('select * from baton.repair_stream_table(' ~ baton.baton_name(target) ~ ')') -%}
    {%- endif -%}
  {%- endif -%}

  {%- do baton.baton_outbox_config(target, config.get('outbox_enabled', false), config.get('consumer_group'), config.get('outbox_format', 'delta'), config.get('outbox_retention_hours')) -%}
  {%- do apply_grants(target, config.get('grants'), should_revoke=(known is not none)) -%}
  {%- do persist_docs(target, model) -%}
  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {% do adapter.commit() %}
  {{ run_hooks(post_hooks, inside_transaction=False) }}
  {{ return({'relations': [target]}) }}
{% endmaterialization %}

{#- What baton knows of a stream table; none when the relation is no stream table. -#}
{% macro baton_stream_table(relation) %}
  {%- if not execute -%} {{ return(none) }} {%- endif -%}
  {%- set found = run_query('select query, schedule, refresh_mode from baton.stream_tables where relation = to_regclass(' ~ baton.baton_name(relation) ~ ')') -%}
  {{ return(found.rows[0] if found.rows | length > 0 else none) }}
{% endmacro %}

{#- The arguments of alter_stream_table() for what differs. -#}
{% macro baton_changes(known, query, schedule, refresh_mode) %}
  {%- set changes = [] -%}
  {%- if known[0] != query -%}
    {%- do changes.append('query => ' ~ baton.baton_literal(query)) -%}
  {%- endif -%}
  {%- if known[1] != schedule -%}
    {%- do changes.append("reset => '{schedule}'" if schedule is none else 'schedule => ' ~ baton.baton_literal(schedule)) -%}
  {%- endif -%}
  {%- if known[2] != refresh_mode -%}
    {%- do changes.append('refresh_mode => ' ~ baton.baton_literal(refresh_mode)) -%}
  {%- endif -%}
  {{ return(changes) }}
{% endmacro %}

{#- Drop a stream table, for dbt run-operation. With cascade also its consumer groups and the stream tables that read it. -#}
{% macro baton_drop_stream_table(name, cascade=false) %}
  {%- do run_query('begin') -%}
  {%- do run_query('select baton.drop_stream_table(' ~ baton.baton_literal(name) ~ ', true, ' ~ cascade ~ ')') -%}
  {%- do run_query('commit') -%}
{% endmacro %}

{% macro baton_literal(value) %}
  {{ return('null' if value is none else "'" ~ (value | string).replace("'", "''") ~ "'") }}
{% endmacro %}

{#- A relation's name as baton's functions want it. -#}
{% macro baton_name(relation) %}
  {{ return(baton.baton_literal(relation.include(database=false) | string)) }}
{% endmacro %}
