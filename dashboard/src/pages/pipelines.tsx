import type { JSX } from "preact";
import { useId, useMemo, useState } from "preact/hooks";
import { change, path, withQuery, Written } from "../api";
import { count, duration, milliseconds, nameOf, none, plain, rate, short } from "../format";
import { ranges, useHistory } from "../history";
import { parseExact, print } from "../json";
import { live } from "../live";
import { Act, attempt } from "../parts/act";
import { Badge, Command, Empty, Facts, Loading, Moment, Name, Note, Page, Panel, Refused, Stat, State } from "../parts/basic";
import { Chart } from "../parts/chart";
import { ask, Dialog } from "../parts/dialog";
import { DiffView } from "../parts/diff_view";
import { stateOf } from "../parts/findings";
import { JsonView } from "../parts/json_view";
import { Table } from "../parts/table";
import { to } from "../places";
import { useResource } from "../resource";
import { navigate } from "../router";
import { useStore } from "../store";
import type { List, Pipeline, RelayPipeline, Rendered } from "../types";

interface Row {
  name: string;
  catalog: Pipeline | null;
  running: RelayPipeline | null;
}

// Those of the catalog, and those that only this relay's file knows.
function rowsOf(catalog: Pipeline[], running: RelayPipeline[]): Row[] {
  const names = new Set([...catalog.map((one) => one.pipeline), ...running.map((one) => one.pipeline)]);
  return [...names].sort().map((name) => ({
    name,
    catalog: catalog.find((one) => one.pipeline === name) ?? null,
    running: running.find((one) => one.pipeline === name) ?? null,
  }));
}

function StateOf({ row }: { row: Row }): JSX.Element {
  if (row.running) return <State of={stateOf(row.running)} />;
  if (row.catalog && !row.catalog.enabled) return <Badge>disabled</Badge>;
  return row.catalog?.owner ? <State of="running">elsewhere</State> : <State of="error">no relay</State>;
}

export function PipelinesPage(): JSX.Element {
  const { data, problem, reload } = useResource<List<Pipeline>>("/pipelines");
  const relay = useStore(live).tick?.relay;
  const rows = rowsOf(data?.items ?? [], relay?.pipelines ?? []);
  return (
    <Page title="Pipelines" about="From an outbox to a broker, or from a broker into an inbox.">
      {problem && <Refused problem={problem} retry={reload} />}
      {data ? (
        <Panel flush>
          <Table<Row>
            caption="pipelines"
            rows={rows}
            id={(row) => row.name}
            tone={(row) => (row.running?.trouble ? "bad" : "")}
            columns={[
              { name: "pipeline", sort: (row) => row.name, cell: (row) => <Name of={row.name} href={to.pipeline(row.name)} /> },
              { name: "state", cell: (row) => <StateOf row={row} /> },
              { name: "from", cell: (row) => <Name of={row.catalog?.source ? nameOf(row.catalog.source) : row.running?.group} />, hideEmpty: (row) => !row.catalog?.source && !row.running?.group },
              { name: "to", cell: (row) => <Name of={row.catalog?.sink} />, hideEmpty: (row) => !row.catalog?.sink },
              { name: "delivered", number: true, sort: (row) => row.running?.delivered, cell: (row) => short(row.running?.delivered) },
              { name: "failed", number: true, sort: (row) => row.running?.failed, cell: (row) => short(row.running?.failed) },
              { name: "p50", number: true, cell: (row) => milliseconds(row.running?.p50_ms) },
              { name: "p99", number: true, cell: (row) => milliseconds(row.running?.p99_ms) },
              { name: "lag", number: true, cell: (row) => short(row.catalog?.lag_events) },
              { name: "kept in", cell: (row) => (row.catalog ? "catalog" : "file") },
              { name: "trouble", wide: true, cell: (row) => (row.running?.trouble ? <span class="error-text">{plain(row.running.trouble)}</span> : <span class="faint">{none}</span>), hideEmpty: (row) => !row.running?.trouble },
            ]}
            empty={<Empty icon="pipeline" title="There is no pipeline yet" command="baton pipelines create --sink kafka orders.toml">This writes a file with remarks. Give it to a relay with --config, or put it into the catalog.</Empty>}
          />
        </Panel>
      ) : !problem && <Loading />}
    </Page>
  );
}

export function PipelinePage({ name }: { name: string }): JSX.Element {
  const list = useResource<List<Pipeline>>("/pipelines");
  const relay = useStore(live).tick?.relay;
  const [editing, setEditing] = useState(false);
  const catalog = list.data?.items.find((one) => one.pipeline === name) ?? null;
  const running = relay?.pipelines.find((one) => one.pipeline === name) ?? null;
  const group = running?.group ?? catalog?.group ?? null;
  const known = catalog || running;
  return (
    <Page title={name} kind="pipeline" under={{ name: "Pipelines", href: "/pipelines" }} actions={catalog && <PipelineActions pipeline={catalog} edit={() => setEditing(true)} />}>
      {list.problem && <Refused problem={list.problem} retry={list.reload} />}
      {!list.data && !list.problem && <Loading />}
      {list.data && !known && <Empty icon="pipeline" title="There is no such pipeline here" command="baton pipelines list">It may have been deleted, or another relay has it in its own file.</Empty>}
      {running && <RunningState running={running} />}
      {known && (
        <>
          <div class="stats">
            <Stat label="Delivered" value={short(running?.delivered)} sub="since the relay began" />
            <Stat label="Failed attempts" value={short(running?.failed)} tone={running?.failed ? "warn" : undefined} />
            <Stat label="Commit to ack, p50" value={milliseconds(running?.p50_ms)} sub={`p99 ${milliseconds(running?.p99_ms)}`} />
            <Stat label="In memory" value={short(running?.buffered)} unit="events" />
            <Stat label="Lag" value={short(catalog?.lag_events)} unit="events" sub={catalog?.lag_events ? `oldest ${duration(catalog.lag_seconds)}` : undefined} />
          </div>
          <PipelineCharts name={name} />
          <Panel title="About">
            <Facts items={[
              ["group", group && <Name of={group} href={to.group(group)} />], ["from", catalog?.source && <Name of={nameOf(catalog.source)} href={catalog.group ? to.outbox(catalog.source) : undefined} />], ["to", catalog?.sink],
              ["owner", catalog?.owner && <Name of={catalog.owner} mono />], ["kept in", catalog ? `the catalog, revision ${count(catalog.revision)}` : "a relay's file"],
              ["changed", catalog && <><Moment at={catalog.updated_at} /> by <bdi>{plain(catalog.updated_by)}</bdi></>], ["dead letters", catalog?.dead_letters && group ? <a class="bad-text" href={to.letters(group)}>{count(catalog.dead_letters)}</a> : "0"],
            ]} />
          </Panel>
          {catalog && <Panel title="Settings"><JsonView value={catalog.settings} label="settings" /></Panel>}
          {group && <RenderPanel name={name} />}
        </>
      )}
      {editing && catalog && <SettingsDialog pipeline={catalog} close={() => setEditing(false)} />}
    </Page>
  );
}

function RunningState({ running }: { running: RelayPipeline }): JSX.Element {
  const bad = running.trouble || ["retrying", "halted", "failed"].includes(running.state);
  return (
    <Note tone={bad ? "bad" : "good"} icon={bad ? "dead" : "check"}>
      <State of={stateOf(running)} /> <span data-trouble>{plain(running.trouble || running.detail) || "this relay runs it"}</span>
      {bad && <p class="faint">Nothing is lost: events wait in the outbox, and delivery goes on by itself once the destination answers.</p>}
    </Note>
  );
}

function PipelineCharts({ name }: { name: string }): JSX.Element | null {
  const range = ranges[1]!;
  const history = useHistory(range);
  const of = history?.pipelines[name];
  const lines = useMemo(() => ({
    flow: [{ name: "delivered/s", colour: "accent" as const, values: of?.delivered ?? [], fill: true }, { name: "failed/s", colour: "bad" as const, values: of?.failed ?? [] }],
    late: [{ name: "p99", colour: "quiet" as const, values: of?.p99_ms ?? [] }, { name: "p50", colour: "accent" as const, values: of?.p50_ms ?? [], fill: true }],
  }), [of]);
  if (!history || !of) return null;
  return (
    <div class="charts">
      <section class="panel" aria-label="deliveries"><Chart title="Deliveries, the last hour" times={history.times} lines={lines.flow} format={rate} span={range.seconds} /></section>
      <section class="panel" aria-label="latency"><Chart title="From commit to acknowledgement" times={history.times} lines={lines.late} format={milliseconds} span={range.seconds} /></section>
    </div>
  );
}

function PipelineActions({ pipeline, edit }: { pipeline: Pipeline; edit: () => void }): JSX.Element {
  const name = pipeline.pipeline;
  const act = (what: "enable" | "disable"): Promise<boolean> => attempt(() => change("POST", path`/pipelines/${name}/` + what), () => `${name} was ${what}d`);
  const disable = async (): Promise<void> => {
    const answer = await ask({ title: `Disable ${plain(name)}`, yes: "Disable the pipeline", danger: true, body: <p>Relays drain and stop it. Its group keeps its place, and its events wait.</p> });
    if (answer !== null) await act("disable");
  };
  const remove = async (): Promise<void> => {
    const answer = await ask({ title: `Delete ${plain(name)}`, yes: "Delete the pipeline", danger: true, body: <p>Relays drain and stop it, and its settings are gone. Its group stays, and holds back retention until it is dropped.</p> });
    if (answer !== null && (await attempt(() => change("DELETE", path`/pipelines/${name}`), () => `${name} was deleted`))) navigate("/pipelines");
  };
  return (
    <>
      <Act icon="edit" onClick={edit}>Edit…</Act>
      {pipeline.enabled ? <Act onClick={disable}>Disable…</Act> : <Act tone="primary" onClick={() => act("enable")}>Enable</Act>}
      <Act icon="trash" tone="danger" onClick={remove}>Delete…</Act>
    </>
  );
}

function SettingsDialog({ pipeline, close }: { pipeline: Pipeline; close: () => void }): JSX.Element {
  const before = useMemo(() => print(pipeline.settings), []);
  const [text, setText] = useState(before);
  const id = useId();
  let wrong = "";
  let after = before;
  try {
    after = print(parseExact(text));
  } catch (error) {
    wrong = (error as Error).message;
  }
  const save = async (event: globalThis.Event): Promise<void> => {
    event.preventDefault();
    const saved = await attempt(() => change("PUT", path`/pipelines/${pipeline.pipeline}`, { settings: new Written(text) }), () => "saved: relays take it over now");
    if (saved) close();
  };
  return (
    <Dialog title={`Settings of ${plain(pipeline.pipeline)}`} onClose={close} wide>
      <form onSubmit={save}>
        <div class="dialog-body">
          <div class="field"><label for={id}>Settings, as in a relay's file</label>
            <textarea id={id} class="mono" rows={14} spellcheck={false} value={text} aria-invalid={!!wrong} onInput={(event) => setText(event.currentTarget.value)} />
            <p class="bad-text" role="alert">{wrong}</p></div>
          {!wrong && <DiffView before={before} after={after} />}
        </div>
        <footer><button type="button" onClick={close}>Cancel</button><button type="submit" class="primary" disabled={!!wrong || after === before}>Save</button></footer>
      </form>
    </Dialog>
  );
}

// What would be sent next, asked for only when somebody wants to see it.
function RenderPanel({ name }: { name: string }): JSX.Element {
  const [asked, setAsked] = useState(false);
  const { data, problem } = useResource<List<Rendered>>(asked ? withQuery(path`/pipelines/${name}/render`, { limit: 5 }) : null, 0);
  return (
    <Panel title="What it would send next" about="Nothing is sent and nothing moves." actions={!asked && <button type="button" class="small" onClick={() => setAsked(true)}>Show</button>}>
      {problem && <Refused problem={problem} />}
      {asked && !data && !problem && <Loading />}
      {data?.items.length === 0 && <p class="faint">Nothing waits: every event is delivered.</p>}
      {data?.items.map((one) => (
        <div key={one.event_id} class="rendered">
          <Facts items={[["destination", <Name of={one.destination} mono />], ["key", <Name of={one.key} mono />], ["event", <Name of={one.event_id} href={to.event(one.event_id)} mono />]]} />
          <JsonView value={one.headers} label="headers" />
          <pre class="body" tabIndex={0}>{plain(one.body).slice(0, 5000)}</pre>
        </div>
      ))}
      {!asked && <Command>{`baton render ${name}`}</Command>}

    </Panel>
  );
}
