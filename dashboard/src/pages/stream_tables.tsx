import type { JSX } from "preact";
import { change, path } from "../api";
import { count, milliseconds, nameOf, plain, plural } from "../format";
import { Act, attempt } from "../parts/act";
import { Ago, Due, Empty, Facts, Loading, Moment, Name, Note, Page, Panel, Refused, Stat, State } from "../parts/basic";
import { ask } from "../parts/dialog";
import { Table } from "../parts/table";
import { to } from "../places";
import { useResource } from "../resource";
import type { List, Refresh, StreamTable } from "../types";

export function StreamsPage(): JSX.Element {
  const { data, problem, reload } = useResource<List<StreamTable>>("/stream-tables");
  return (
    <Page title="Stream tables" about="Queries that are kept up to date, and their changes as events.">
      {problem && <Refused problem={problem} retry={reload} />}
      {data ? (
        <Panel flush>
          <Table<StreamTable>
            caption="stream tables"
            rows={data.items}
            id={(one) => one.stream_table}
            tone={(one) => (one.error ? "bad" : "")}
            columns={[
              { name: "stream table", sort: (one) => one.stream_table, cell: (one) => <Name of={nameOf(one.stream_table)} href={to.stream(one.stream_table)} /> },
              { name: "state", cell: (one) => <State of={one.state} /> },
              { name: "mode", cell: (one) => one.effective_mode },
              { name: "schedule", cell: (one) => <Name of={one.schedule} /> },
              { name: "refreshed", cell: (one) => <Ago at={one.refreshed_at} /> },
              { name: "took", number: true, sort: (one) => one.last_milliseconds, cell: (one) => milliseconds(one.last_milliseconds) },
              { name: "rows", number: true, cell: (one) => <span class="nowrap">+{count(one.last_inserted)} −{count(one.last_deleted)}</span> },
              { name: "outbox", cell: (one) => <Name of={one.outbox && nameOf(one.outbox)} href={one.outbox ? to.outbox(one.outbox) : undefined} />, hideEmpty: (one) => !one.outbox },
              { name: "error", wide: true, cell: (one) => (one.error ? <span class="error-text">{plain(one.error)}</span> : ""), hideEmpty: (one) => !one.error },
            ]}
            empty={<Empty icon="stream" title="There is no stream table yet" command="select baton.create_stream_table('revenue', 'select product, sum(total) as total from orders group by product', '1s');">A query becomes a table that follows its sources.</Empty>}
          />
        </Panel>
      ) : !problem && <Loading />}
    </Page>
  );
}

interface Refreshed {
  mode: string;
  inserted: number;
  deleted: number;
  milliseconds: number;
}

function StreamActions({ stream }: { stream: StreamTable }): JSX.Element {
  const name = stream.stream_table;
  const where = (verb: string): string => path`/stream-tables/${name}/` + verb;
  const refreshed = (done: Refreshed): string => `${done.mode}: +${done.inserted} −${done.deleted} rows in ${milliseconds(done.milliseconds)}`;
  const repair = async (): Promise<void> => {
    const answer = await ask({ title: `Compute ${plain(nameOf(name))} anew`, yes: "Compute it anew", body: <p>The whole query runs, and the difference is written. Then the stream table goes on by its schedule.</p> });
    if (answer !== null) await attempt(() => change<Refreshed>("POST", where("repair")), refreshed);
  };
  const verify = (): Promise<boolean> =>
    attempt(() => change<{ missing: number; surplus: number }>("POST", where("verify")), ({ missing, surplus }) => (missing + surplus === 0 ? "it holds exactly what its query gives" : `${plural(missing, "row")} missing, ${plural(surplus, "row")} too many`));
  return (
    <>
      <Act icon="replay" onClick={() => attempt(() => change<Refreshed>("POST", where("refresh")), refreshed)}>Refresh</Act>
      <Act onClick={verify}>Verify</Act>
      {stream.state === "paused"
        ? <Act tone="primary" onClick={() => attempt(() => change("POST", where("resume")), () => "it is refreshed by schedule again")}>Resume</Act>
        : <Act onClick={() => attempt(() => change("POST", where("pause")), () => "it is not refreshed by schedule any more")}>Pause</Act>}
      <Act onClick={repair}>Repair…</Act>
    </>
  );
}

export function StreamPage({ name }: { name: string }): JSX.Element {
  const { data, problem, reload } = useResource<StreamTable>(path`/stream-tables/${name}`);
  const refreshes = useResource<List<Refresh>>(path`/stream-tables/${name}/refreshes`);
  const explained = useResource<{ explanation: string }>(path`/stream-tables/${name}/explanation`, 0);
  return (
    <Page title={nameOf(name)} kind="stream table" under={{ name: "Stream tables", href: "/stream-tables" }} actions={data && <StreamActions stream={data} />}>
      {problem && <Refused problem={problem} retry={reload} />}
      {!data && !problem && <Loading />}
      {data && (
        <>
          {data.error && <Note tone="bad" icon="dead"><strong>{plural(data.failed_in_a_row, "refresh", "refreshes")} in a row failed.</strong> {plain(data.error)}</Note>}
          <div class="stats">
            <Stat label="State" value={data.state} tone={data.error ? "bad" : undefined} sub={<>refreshed <Ago at={data.refreshed_at} /></>} />
            <Stat label="Last refresh" value={milliseconds(data.last_milliseconds)} sub={data.last_mode ?? undefined} />
            <Stat label="Rows changed" value={`+${count(data.last_inserted)} −${count(data.last_deleted)}`} />
            <Stat label="Refreshes" value={count(data.refreshes)} />
          </div>
          <Panel title="About">
            <Facts items={[
              ["mode", data.mode === data.effective_mode ? data.mode : `${data.effective_mode}, asked for ${data.mode}`], ["why", data.reason && plain(data.reason)], ["schedule", data.schedule && plain(data.schedule)],
              ["due", <Due at={data.next_due} />], ["changes go to", data.outbox && <Name of={nameOf(data.outbox)} href={to.outbox(data.outbox)} />],
            ]} />
          </Panel>
          <Panel title="Refreshes" flush>
            {refreshes.data ? (
              <Table<Refresh> caption="the last refreshes" rows={refreshes.data.items} id={(one) => one.begun_at}
                columns={[
                  { name: "begun", cell: (one) => <Moment at={one.begun_at} millis /> }, { name: "mode", cell: (one) => one.mode },
                  { name: "came", number: true, cell: (one) => count(one.inserted) }, { name: "went", number: true, cell: (one) => count(one.deleted) },
                  { name: "took", number: true, cell: (one) => milliseconds(one.milliseconds) },
                  { name: "error", wide: true, cell: (one) => (one.error ? <span class="error-text">{plain(one.error)}</span> : ""), hideEmpty: (one) => !one.error },
                ]}
                empty={<Empty icon="stream" title="It was not refreshed yet" />} />
            ) : <Loading />}
          </Panel>
          {explained.data && <Panel title="How it is kept up to date"><pre class="body" tabIndex={0}>{plain(explained.data.explanation)}</pre></Panel>}
        </>
      )}
    </Page>
  );
}
