{#- Give a stream table the outbox and the consumer groups that its model asks for, and take the outbox away from one that asks for none. -#}
{% macro baton_outbox_config(relation, outbox_enabled=true, consumer_group=none, format='delta', retention_hours=none) %}
  {%- if execute -%}
    {%- set name = baton.baton_name(relation) -%}
    {%- set state = run_query('select outbox, outbox_format from baton.stream_table_status(' ~ name ~ ')').rows[0] -%}
    {%- if outbox_enabled -%}
      {%- if state[0] is none -%}
        {%- do run_query('select baton.enable_outbox(' ~ name ~ ', ' ~ (retention_hours if retention_hours is not none else 'null') ~ ', ' ~ baton.baton_literal(format) ~ ')') -%}
      {%- elif state[1] != format -%}
        {%- do exceptions.raise_compiler_error('the outbox of ' ~ relation ~ ' has format ' ~ state[1] ~ ', the model asks for ' ~ format ~ ': end it first with baton.disable_outbox()') -%}
      {%- endif -%}
      {%- set outbox = run_query('select outbox from baton.stream_table_status(' ~ name ~ ')').rows[0][0] -%}
      {%- set groups = [] if consumer_group is none else ([consumer_group] if consumer_group is string else consumer_group) -%}
      {%- for group in groups -%}
        {%- do run_query('select baton.create_consumer_group(' ~ baton.baton_literal(group) ~ ', ' ~ baton.baton_literal(outbox) ~ ", 'earliest')") -%}
      {%- endfor -%}
    {%- else -%}
      {%- if consumer_group is not none -%}
        {%- do exceptions.raise_compiler_error('consumer_group of ' ~ relation ~ ' needs outbox_enabled: true') -%}
      {%- endif -%}
      {%- if state[0] is not none -%}
        {%- do run_query('select baton.disable_outbox(' ~ name ~ ')') -%}
      {%- endif -%}
    {%- endif -%}
  {%- endif -%}
{% endmacro %}

{#- Make an inbox, unless it is there. `inbox_config` has its name, and may have schema, max_retries, retention_hours, ordering ({aggregate_id_col, sequence_num_col}) or
    priority (a column). -#}
{% macro baton_create_inbox(inbox_config) %}
  {%- if execute and inbox_config -%}
    {%- set unknown = inbox_config.keys() | reject('in', ['name', 'schema', 'max_retries', 'retention_hours', 'ordering', 'priority']) | list -%}
    {%- if unknown or not inbox_config.get('name') -%}
      {%- do exceptions.raise_compiler_error('inbox_config needs a name' ~ ((', and knows no ' ~ unknown | join(', ')) if unknown else '')) -%}
    {%- endif -%}
    {%- set schema = inbox_config.get('schema', target.schema) -%}
    {%- set inbox = adapter.quote(schema) ~ '.' ~ adapter.quote(inbox_config['name']) -%}
    {%- if not run_query('select to_regclass(' ~ baton.baton_literal(inbox) ~ ') is not null').rows[0][0] -%}
      {%- set options = [] -%}
      {%- for option in ['max_retries', 'retention_hours'] if option in inbox_config -%}
        {%- do options.append(', ' ~ option ~ ' => ' ~ inbox_config[option] | int) -%}
      {%- endfor -%}
      {%- do run_query('select baton.create_inbox(' ~ baton.baton_literal(inbox_config['name']) ~ ', ' ~ baton.baton_literal(schema) ~ options | join ~ ')') -%}
      {%- set ordering = inbox_config.get('ordering') -%}
      {%- if ordering -%}
        {%- do run_query('select baton.enable_inbox_ordering(' ~ baton.baton_literal(inbox) ~ ', ' ~ baton.baton_literal(ordering.get('aggregate_id_col', 'aggregate_id'))
                         ~ ', ' ~ baton.baton_literal(ordering.get('sequence_num_col', 'sequence_num')) ~ ')') -%}
      {%- endif -%}
      {%- if inbox_config.get('priority') -%}
        {%- do run_query('select baton.enable_inbox_priority(' ~ baton.baton_literal(inbox) ~ ', ' ~ baton.baton_literal(inbox_config['priority']) ~ ')') -%}
      {%- endif -%}
    {%- endif -%}
  {%- endif -%}
{% endmacro %}
