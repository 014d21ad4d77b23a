-- When a stream table is refreshed: a duration ('1s', '5 minutes'), or a cron expression of five fields (minute, hour, day of the month,
-- month, day of the week), or 'live': when a source has changed. Nothing: by hand only.

-- Put numbers for the names of months and days of the week in a field of a cron expression.
create function baton_internal.cron_numbers(field text, names text[], first int)
returns text
language plpgsql immutable
as $$
begin
    field := lower(field);
    for i in 1 .. cardinality(names) loop
        field := regexp_replace(field, E'\\m' || names[i] || E'\\M', (first + i - 1)::text, 'g');
    end loop;
    return field;
end
$$;
comment on function baton_internal.cron_numbers(text, text[], int) is 'field of a cron expression with numbers for names';

-- Return the numbers that a field of a cron expression names, in order; null when it is none.
create function baton_internal.cron_values(field text, first int, last int)
returns int[]
language plpgsql immutable
as $$
declare
    item text;
    part text[];
    low int;
    high int;
    step int;
    numbers int[] := '{}';
begin
    if field is null or octet_length(field) > 200 then
        return null;
    end if;
    foreach item in array string_to_array(field, ',') loop
        part := regexp_match(item, E'^(\\*|([0-9]{1,4})(-([0-9]{1,4}))?)(/([0-9]{1,4}))?$');
        if part is null then
            return null;
        end if;
        low := coalesce(part[2]::int, first);
        high := coalesce(part[4]::int, case when part[2] is null or part[5] is not null then last else low end);
        step := coalesce(part[6]::int, 1);
        if step = 0 or low < first or high > last or low > high then
            return null;
        end if;
        numbers := numbers || array(select generate_series(low, high, step));
    end loop;
    return array(select distinct n from unnest(numbers) n order by n);
end
$$;
comment on function baton_internal.cron_values(text, int, int) is 'numbers of a field of a cron expression, null when it is none';

-- Read a cron expression; null when the text is none. Day 7 is Sunday, as 0 is.
create function baton_internal.parse_cron(expression text, out minutes int[], out hours int[], out days int[], out months int[], out weekdays int[],
                                          out any_day boolean, out any_weekday boolean)
language plpgsql immutable
as $$
declare
    field constant text[] := regexp_split_to_array(btrim(expression, E' \t\n'), E'\\s+');
begin
    if cardinality(field) <> 5 then
        return;
    end if;
    minutes := baton_internal.cron_values(field[1], 0, 59);
    hours := baton_internal.cron_values(field[2], 0, 23);
    days := baton_internal.cron_values(field[3], 1, 31);
    months := baton_internal.cron_values(baton_internal.cron_numbers(field[4], '{jan,feb,mar,apr,may,jun,jul,aug,sep,oct,nov,dec}', 1), 1, 12);
    weekdays := baton_internal.cron_values(baton_internal.cron_numbers(field[5], '{sun,mon,tue,wed,thu,fri,sat}', 0), 0, 7);
    if minutes is null or hours is null or days is null or months is null or weekdays is null then
        minutes := null;
        return;
    end if;
    if 7 = any (weekdays) then
        weekdays := array(select distinct n % 7 from unnest(weekdays) n order by 1);
    end if;
    any_day := field[3] like '*%';
    any_weekday := field[5] like '*%';
end
$$;
comment on function baton_internal.parse_cron(text) is 'the fields of a cron expression; minutes is null when the text is none';

-- Find the first moment after another that a cron expression names, by the clock of a time zone; null when there is none in
-- the next 9 years, in which every date comes. Where both the day and the day of the week are restricted, either will do. A local time that
-- a change of clocks leaves out comes when the clock has gone on.
create function baton_internal.next_cron(expression text, after timestamptz, zone text default current_setting('TimeZone'))
returns timestamptz
language plpgsql stable
as $$
declare
    cron record := baton_internal.parse_cron(expression);
    day date := (after at time zone zone)::date - 1;  -- an hour that comes twice may lie before
    found_at timestamptz;
begin
    if cron.minutes is null then
        return null;
    end if;
    for d in 0 .. 9 * 366 loop
        if extract(month from day + d)::int = any (cron.months)
           and (case when cron.any_day or cron.any_weekday
                    then extract(day from day + d)::int = any (cron.days) and extract(dow from day + d)::int = any (cron.weekdays)
                    else extract(day from day + d)::int = any (cron.days) or extract(dow from day + d)::int = any (cron.weekdays) end) then
            select min(m.moment) into found_at
              from unnest(cron.hours) h cross join unnest(cron.minutes) n
             cross join lateral (select (day + d + make_interval(hours => h, mins => n)) at time zone zone as moment) m
             where m.moment > after;
            if found_at is not null then
                return found_at;
            end if;
        end if;
    end loop;
    return null;
end
$$;
comment on function baton_internal.next_cron(text, timestamptz, text) is 'first moment after another that a cron expression names';

-- Read a text as a duration; null when it is none.
create function baton_internal.parse_duration(value text)
returns interval
language plpgsql stable
as $$
begin
    return case when value !~ '[*/]' then value::interval end;  -- the server would read 61 * * * * as 61 seconds
exception when data_exception then
    return null;
end
$$;
comment on function baton_internal.parse_duration(text) is 'a text as a duration, null when it is none';

-- Refuse a schedule that cannot be kept.
create function baton_internal.check_stream_schedule(schedule text)
returns void
language plpgsql stable
as $$
declare
    every interval;
begin
    if schedule is null then
        return;
    elsif lower(btrim(schedule)) = 'live' then
        if (select i.form from baton.installation i) = 'sql' then
            raise exception 'schedule ''live'' needs the extension, which tells when a table has changed' using errcode = 'feature_not_supported', hint = 'the shortest schedule is ''1s''';
        end if;
        return;
    elsif (baton_internal.parse_cron(schedule)).minutes is not null then
        if baton_internal.next_cron(schedule, now()) is null then
            raise exception 'schedule "%" names a date that never comes', schedule
                using errcode = 'invalid_parameter_value', hint = 'the fields are minute, hour, day of the month, month and day of the week';
        end if;
        return;
    end if;
    every := baton_internal.parse_duration(schedule);
    if every is null then
        raise exception 'schedule "%" is neither a duration, nor ''live'', nor a cron expression', left(schedule, 100)
            using errcode = 'invalid_parameter_value',
                  hint = 'such as ''1s'', ''5 minutes'', ''live'' or ''0 3 * * mon-fri'' (minute, hour, day of the month, month, day of the week); null refreshes by hand only';
    elsif every < interval '1 second' or every > interval '100 years' then
        raise exception 'a schedule is from 1 second to 100 years, not %', schedule using errcode = 'invalid_parameter_value';
    end if;
end
$$;
comment on function baton_internal.check_stream_schedule(text) is 'raises invalid_parameter_value for a schedule that is none';

-- When a stream table is due that was last refreshed at a moment; null without a schedule. A live one is due again when its interval is over, and rests until
-- something happens; where `follows` is false nobody tells of that, and once a second must do.
create function baton_internal.next_refresh(schedule text, last timestamptz, follows boolean default true, zone text default current_setting('TimeZone'))
returns timestamptz
language plpgsql stable
as $$
begin
    return case when schedule is null then null
                when lower(btrim(schedule)) = 'live' then last + case when follows then baton.setting('stream_live_interval_ms')::int else 1000 end * interval '1 millisecond'
                when (baton_internal.parse_cron(schedule)).minutes is not null then coalesce(baton_internal.next_cron(schedule, last, zone), 'infinity')
                else last + baton_internal.parse_duration(schedule) end;
end
$$;
comment on function baton_internal.next_refresh(text, timestamptz, boolean, text) is 'when a stream table is due next';
