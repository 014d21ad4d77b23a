// One pipeline: what it does now, its numbers, its settings, and what it would send next.

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { change, path } from "../api";
import { count, duration, milliseconds, nameOf, plain, rate, short } from "../format";
import { ranges, useHistory } from "../history";
import { live } from "../live";
import { Act, attempt } from "../parts/act";
import { Ago, Command, Empty, Facts, Loading, Moment, Name, Note, Page, Panel, Refused, Stat } from "../parts/basic";
import { Chart } from "../parts/chart";
import { ask } from "../parts/dialog";
import { JsonView } from "../parts/json_view";
import { SettingsDialog } from "../parts/pipeline_settings";
import { type PipelineRow, PipelineState, rowsOf, troubleOf } from "../parts/pipeline_state";
import { RenderPanel } from "../parts/render_panel";
import { to } from "../places";
import { useResource } from "../resource";
import { navigate } from "../router";
import { useStore } from "../store";
import type { List, Pipeline } from "../types";

export function PipelinePage({ name }: { name: string }): JSX.Element {
  const list = useResource<List<Pipeline>>("/pipelines");
  const relays = useStore(live).tick?.pipelines ?? [];
  const [editing, setEditing] = useState(false);
  const row = rowsOf(list.data?.items ?? [], relays).find((one) => one.name === name) ?? null;
  const known = row?.known ?? null;
  const running = row?.running ?? null;
  const catalog = known?.kept_in === "catalog" ? known : null;
  const group = running?.group ?? known?.group ?? null;
  return (
    <Page title={name} kind="pipeline" under={{ name: "Pipelines", href: "/pipelines" }} actions={catalog && <PipelineActions pipeline={catalog} edit={() => setEditing(true)} />}>
      {list.problem && <Refused problem={list.problem} retry={list.reload} />}
      {!list.data && !list.problem && <Loading />}
      {list.data && !row && <Empty icon="pipeline" title="There is no such pipeline here" command="baton pipelines list">It may have been deleted, or another relay has it in its own file.</Empty>}
      {row && list.data && <Now row={row} />}
      {row && list.data && (
        <>
          <div class="stats">
            <Stat label="Delivered" value={short(running?.delivered ?? known?.delivered)} sub="since the relay began" />
            <Stat label="Failed attempts" value={short(running?.failed ?? known?.failed)} tone={running?.failed ? "warn" : undefined} />
            <Stat label="Commit to ack, p50" value={milliseconds(running?.p50_ms)} sub={`p99 ${milliseconds(running?.p99_ms)}`} />
            <Stat label="In memory" value={short(running?.buffered)} unit="events" />
            <Stat label="Lag" value={short(known?.lag_events)} unit="events" sub={known?.lag_events ? `oldest ${duration(known.lag_seconds)}` : undefined} />
          </div>
          <PipelineCharts name={name} />
          <Panel title="About">
            <Facts items={[
              ["group", group && <Name of={group} href={to.group(group)} />], ["from", known?.source && <Name of={nameOf(known.source)} href={known.group ? to.outbox(known.source) : undefined} />], ["to", known?.sink],
              ["relay", <Name of={running?.relay ?? known?.owner} mono />], ["kept in", catalog ? `the catalog, revision ${count(catalog.revision)}` : "a relay's file"],
              ["changed", catalog && <><Moment at={catalog.updated_at} /> by <bdi>{plain(catalog.updated_by)}</bdi></>], ["dead letters", known?.dead_letters && group ? <a class="bad-text" href={to.letters(group)}>{count(known.dead_letters)}</a> : "0"],
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

// What it does now. What its relay said last stands in the database, so it is known without that relay as well.
function Now({ row }: { row: PipelineRow }): JSX.Element {
  const { known, running } = row;
  const trouble = troubleOf(row);
  const since = trouble ? known?.trouble_since : null;
  if (known?.enabled === false) return <Note><PipelineState row={row} /> No relay runs it; its group keeps its place, and its events wait.</Note>;
  if (!running && !trouble && !known?.owner)
    return <Note tone="bad" icon="dead"><PipelineState row={row} /> No relay runs it: its events wait.<Command>baton relay</Command></Note>;
  return (
    <Note tone={trouble ? "bad" : "good"} icon={trouble ? "dead" : "check"}>
      <PipelineState row={row} /> <span data-trouble>{plain(trouble || running?.detail) || "a relay runs it"}</span>
      {since && <p class="faint" data-since>since <Moment at={since} /> (<Ago at={since} />)</p>}
      {trouble && <p class="faint">Nothing is lost: events wait in the outbox, and delivery goes on by itself once the destination answers.</p>}
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
