// The whole at a glance: what needs somebody, how much flows, how late it is.

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { count, duration, milliseconds, plural, rate, short } from "../format";
import { ranges, useHistory, type Range } from "../history";
import { live } from "../live";
import { Command, Empty, Loading, Name, Page, Panel, Stat, State } from "../parts/basic";
import { Chart, Sparkline } from "../parts/chart";
import { databaseFindings, Findings, relayFindings, stateOf } from "../parts/findings";
import { Segments } from "../parts/form";
import { Icon } from "../parts/icons";
import { rowsOf } from "../parts/pipeline_state";
import { Table } from "../parts/table";
import { to } from "../places";
import { useResource } from "../resource";
import { useStore } from "../store";
import type { Group, History, List, Overview, RunningPipeline, Tick } from "../types";

const firstSteps = `select baton.create_outbox('orders');
select baton.create_consumer_group('billing', 'orders', 'earliest');
select baton.publish('orders', 'order.placed', '{"total": 42}'::jsonb, 'order', 7);`;

const relayCommand = "baton relay --db \"$DATABASE_URL\" --config relay.toml --listen 127.0.0.1:9187";

export function OverviewPage(): JSX.Element {
  const { tick } = useStore(live);
  const first = useResource<Overview>("/overview", 0);
  const [range, setRange] = useState<Range>(ranges[1]!);
  const history = useHistory(range);
  const overview = tick?.overview ?? first.data;
  if (!overview) return <Page title="Overview"><Loading /></Page>;
  const isNew = overview.totals.outboxes + overview.totals.inboxes === 0;
  return (
    <Page title="Overview" about={<ServerLine overview={overview} tick={tick} />}
      actions={<Segments label="time shown" value={range.name} onChange={(name) => setRange(ranges.find((one) => one.name === name)!)} options={ranges.map((one) => [one.name, one.name])} />}>
      {isNew ? (
        <Panel title="Begin here">
          <Empty icon="outbox" title="There is no outbox yet">Run this in the database, and the event is here a moment later.</Empty>
          <Command>{firstSteps}</Command>
        </Panel>
      ) : (
        <Health overview={overview} tick={tick} />
      )}
      <Stats tick={tick} history={history} overview={overview} />
      <Charts history={history} range={range} />
      <div class="columns">
        <RunningPanel tick={tick} />
        <GroupsPanel />
      </div>
    </Page>
  );
}

function ServerLine({ overview, tick }: { overview: Overview; tick: Tick | null }): JSX.Element {
  const { server } = overview;
  return (
    <>
      Database <bdi>{server.database}</bdi>, {plural(overview.totals.published, "event")} published
      {tick?.relay?.name && <>, relay <bdi>{tick.relay.name}</bdi></>}
      {server.standby && <> · <State of="warning">a standby: nothing can be changed</State></>}
    </>
  );
}

function Health({ overview, tick }: { overview: Overview; tick: Tick | null }): JSX.Element {
  const findings = [...relayFindings(tick?.relay, overview.findings), ...databaseFindings(overview.findings)];
  const errors = findings.filter((finding) => finding.severity === "error").length;
  if (findings.length === 0)
    return (
      <div class="health good" data-health="good"><Icon name="check" size={20} /><div><strong>All good.</strong> <span>Every check is green; nothing needs you.</span></div><a href="/doctor">Look closer</a></div>
    );
  return (
    <Panel title={`${plural(findings.length, "thing needs", "things need")} you`} about={errors ? `${plural(errors, "error")}, ${plural(findings.length - errors, "warning")}` : "warnings only"} flush
      actions={<a class="button small" href="/doctor">Look closer</a>}>
      <Findings findings={findings} />
    </Panel>
  );
}

function Stats({ tick, history, overview }: { tick: Tick | null; history: History | null; overview: Overview }): JSX.Element {
  const now = tick?.sample ?? {};
  const past = history?.series;
  const dead = now.dead_letters ?? overview.totals.dead_letters;
  return (
    <div class="stats" role="group" aria-label="now">
      <Stat label="Published" value={rate(now.published)} unit="/s"><Sparkline values={past?.published ?? []} tone="quiet" /></Stat>
      <Stat label="Delivered" value={rate(now.delivered)} unit="/s"><Sparkline values={past?.delivered ?? []} /></Stat>
      <Stat label="Lag" value={short(now.lag_events)} unit="events" sub={now.lag_seconds ? `oldest ${duration(now.lag_seconds)}` : "nothing waits long"} tone={(now.lag_seconds ?? 0) > 60 ? "warn" : undefined}><Sparkline values={past?.lag_events ?? []} /></Stat>
      <Stat label="Commit to ack, p50" value={milliseconds(now.p50_ms)} sub={`p99 ${milliseconds(now.p99_ms)}`}><Sparkline values={past?.p50_ms ?? []} /></Stat>
      <Stat label="Failures" value={rate(now.failed)} unit="/s" tone={(now.failed ?? 0) > 0 ? "bad" : undefined}><Sparkline values={past?.failed ?? []} tone="bad" /></Stat>
      <Stat label="Dead letters" value={count(dead)} tone={(dead ?? 0) > 0 ? "bad" : undefined} sub={(dead ?? 0) > 0 ? <a href="/dead-letters">mend them</a> : "none"}><Sparkline values={past?.dead_letters ?? []} tone="bad" /></Stat>
    </div>
  );
}

function Charts({ history, range }: { history: History | null; range: Range }): JSX.Element {
  const all = useMemo(() => {
    const { times = [], series } = history ?? {};
    const of = (name: keyof History["series"]): (number | null)[] => series?.[name] ?? [];
    return [
      { title: "Events per second", times, format: rate, lines: [{ name: "published", colour: "quiet" as const, values: of("published") }, { name: "delivered", colour: "accent" as const, values: of("delivered"), fill: true }] },
      { title: "Events that wait", times, format: short, lines: [{ name: "lag", colour: "accent" as const, values: of("lag_events"), fill: true }] },
      { title: "From commit to acknowledgement", times, format: milliseconds, lines: [{ name: "p99", colour: "quiet" as const, values: of("p99_ms") }, { name: "p50", colour: "accent" as const, values: of("p50_ms"), fill: true }] },
      { title: "What fails", times, format: rate, lines: [{ name: "failures/s", colour: "bad" as const, values: of("failed"), fill: true }, { name: "dead letters", colour: "quiet" as const, values: of("dead_letters") }] },
    ];
  }, [history]);
  return (
    <div class="charts">
      {all.map((chart) => <section key={chart.title} class="panel" aria-label={chart.title}><Chart {...chart} span={range.seconds} /></section>)}
    </div>
  );
}

// Pipelines of all relays. One relay tells of a pipeline; others that stand by for it are not listed.
function RunningPanel({ tick }: { tick: Tick | null }): JSX.Element {
  const running = tick?.pipelines ?? [];
  const several = new Set(running.map((one) => one.relay)).size > 1;
  const rows = rowsOf([], running).map((row) => row.running!);
  return (
    <Panel title="Pipelines that run" flush actions={<a class="button small" href="/pipelines">All pipelines</a>}>
      <Table<RunningPipeline>
        caption="pipelines that run"
        rows={rows}
        id={(one) => one.pipeline}
        tone={(one) => (one.trouble ? "bad" : "")}
        columns={[
          { name: "pipeline", cell: (one) => <Name of={one.pipeline} href={to.pipeline(one.pipeline)} /> },
          { name: "state", cell: (one) => <State of={stateOf(one)} /> },
          { name: "delivered", number: true, cell: (one) => short(one.delivered) },
          { name: "failed", number: true, cell: (one) => short(one.failed) },
          { name: "p50", number: true, cell: (one) => milliseconds(one.p50_ms) },
          { name: "p99", number: true, cell: (one) => milliseconds(one.p99_ms) },
          ...(several ? [{ name: "relay", cell: (one: RunningPipeline) => <Name of={one.relay} mono /> }] : []),
        ]}
        empty={
          tick?.relay?.name
            ? <Empty icon="pipeline" title="This relay has no pipeline yet" command="baton pipelines create --sink kafka orders.toml">Write one, then give it to the relay with --config.</Empty>
            : <Empty icon="pipeline" title="No relay runs" command={relayCommand}>Relays that work on this database show their pipelines here.</Empty>
        }
      />
    </Panel>
  );
}

function GroupsPanel(): JSX.Element {
  const { data } = useResource<List<Group>>("/groups");
  const rows = [...(data?.items ?? [])].sort((a, b) => (b.lag_events ?? 0) - (a.lag_events ?? 0)).slice(0, 8);
  return (
    <Panel title="Groups that are behind most" flush actions={<a class="button small" href="/groups">All groups</a>}>
      {data ? (
        <Table<Group>
          caption="groups that are behind most"
          rows={rows}
          id={(one) => one.group}
          columns={[
            { name: "group", cell: (one) => <Name of={one.group} href={to.group(one.group)} /> },
            { name: "lag", number: true, cell: (one) => short(one.lag_events) },
            { name: "oldest", number: true, cell: (one) => (one.lag_events ? duration(one.lag_seconds) : "–") },
            { name: "retrying", number: true, cell: (one) => count(one.retrying) },
            { name: "dead", number: true, cell: (one) => (one.dead_letters ? <a href={to.letters(one.group)}>{count(one.dead_letters)}</a> : "0") },
          ]}
          empty={<Empty icon="group" title="No group reads yet" command="select baton.create_consumer_group('billing', 'orders', 'earliest');">A relay makes the groups of its pipelines by itself.</Empty>}
        />
      ) : <Loading />}
    </Panel>
  );
}
