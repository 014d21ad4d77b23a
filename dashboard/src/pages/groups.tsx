import type { JSX } from "preact";
import { useId, useMemo, useState } from "preact/hooks";
import { change, path } from "../api";
import { count, duration, nameOf, plain, plural, short } from "../format";
import { ranges, useHistory } from "../history";
import { Act, attempt } from "../parts/act";
import { Ago, Empty, Facts, Loading, Name, Page, Panel, Refused, Stat, State } from "../parts/basic";
import { BlockedKeys } from "../parts/blocked_keys";
import { Chart } from "../parts/chart";
import { Dialog } from "../parts/dialog";
import { Segments } from "../parts/form";
import { groupColumns, served } from "../parts/group_columns";
import { LeaseTable } from "../parts/lease_table";
import { LetterList } from "../parts/letter_list";
import { Table } from "../parts/table";
import { to } from "../places";
import { useResource } from "../resource";
import type { Consumer, Group, List } from "../types";

export function GroupsPage(): JSX.Element {
  const { data, problem, reload } = useResource<List<Group>>("/groups");
  return (
    <Page title="Groups" about="Readers of outboxes. Each keeps its own place, and lag is what it has not settled.">
      {problem && <Refused problem={problem} retry={reload} />}
      {data ? (
        <Panel flush>
          <Table<Group> caption="consumer groups" rows={data.items} id={(group) => group.group} columns={groupColumns(true)}
            empty={<Empty icon="group" title="There is no group yet" command="select baton.create_consumer_group('billing', 'orders', 'earliest');">A relay makes the groups of its pipelines by itself; consumers of your own begin with this.</Empty>} />
        </Panel>
      ) : !problem && <Loading />}
    </Page>
  );
}

export function GroupPage({ name }: { name: string }): JSX.Element {
  const { data, problem, reload } = useResource<Group>(path`/groups/${name}`);
  const consumers = useResource<List<Consumer>>(path`/groups/${name}/consumers`);
  const [seeking, setSeeking] = useState(false);
  return (
    <Page title={name} kind="group" under={{ name: "Groups", href: "/groups" }}
      actions={<><a class="button" href={to.audit(name)}>Its history</a><Act onClick={() => setSeeking(true)}>Move it…</Act></>}>
      {problem && <Refused problem={problem} retry={reload} />}
      {!data && !problem && <Loading />}
      {data && (
        <>
          <div class="stats">
            <Stat label="Lag" value={short(data.lag_events)} unit="events" sub={data.lag_events ? `oldest ${duration(data.lag_seconds)}` : "up to date"} tone={(data.lag_seconds ?? 0) > 60 && data.lag_events ? "warn" : undefined} />
            <Stat label="Retrying" value={count(data.retrying)} sub={`up to ${count(data.max_attempts)} attempts`} tone={data.retrying ? "warn" : undefined} />
            <Stat label="Blocked behind them" value={count(data.blocked)} tone={data.blocked ? "warn" : undefined} />
            <Stat label="Dead letters" value={count(data.dead_letters)} tone={data.dead_letters ? "bad" : undefined} sub={data.dead_letters ? <a href={to.letters(name)}>mend them</a> : undefined} />
          </div>
          <Panel title="About">
            <Facts items={[
              ["reads", <Name of={nameOf(data.outbox)} href={to.outbox(data.outbox)} />], ["served by", <State of={served(data).tone}>{served(data).word}</State>],
              ["owner", data.owner && <><Name of={data.owner} mono /> <span class="faint">for <Ago at={data.owned_until} /></span></>],
              ["order", data.ordered ? "events of one key in their order" : "none"], ["behind a dead letter", data.on_poison], ["tenant", data.tenant_id && <Name of={data.tenant_id} />],
            ]} />
          </Panel>
          <GroupLag name={name} />
          <Panel title="Consumers" flush>
            <Table<Consumer> caption="consumers" rows={consumers.data?.items ?? []} id={(one) => one.consumer}
              columns={[
                { name: "consumer", cell: (one) => <Name of={one.consumer} mono /> },
                { name: "health", cell: (one) => <State of={one.healthy ? "healthy" : "warning"}>{one.healthy ? "healthy" : "silent"}</State> },
                { name: "last sign of life", cell: (one) => <Ago at={one.last_heartbeat} /> },
                { name: "last offset", number: true, cell: (one) => count(one.last_offset) },
                { name: "leases", number: true, cell: (one) => count(one.leases) },
              ]}
              empty={<Empty icon="group" title={data.owner ? "A relay owns this group" : "No consumer is known"}>{data.owner ? "A relay needs no consumers beside it." : "Start a relay with a pipeline of this group, or consumers of your own."}</Empty>} />
          </Panel>
          <BlockedKeys group={name} outbox={data.outbox} />
          <Panel title="Leases" flush><LeaseTable group={name} /></Panel>
          {data.dead_letters > 0 && <LetterList filter={{ place: name }} title="Dead letters" />}
        </>
      )}
      {seeking && data && <SeekDialog group={name} close={() => setSeeking(false)} />}
    </Page>
  );
}

function GroupLag({ name }: { name: string }): JSX.Element | null {
  const range = ranges[1]!;
  const history = useHistory(range);
  const lines = useMemo(() => [{ name: "lag", colour: "accent" as const, values: history?.groups[name]?.lag_events ?? [], fill: true }], [history, name]);
  if (!history?.groups[name]) return null;
  return <section class="panel" aria-label="lag"><Chart title="Events that wait, the last hour" times={history.times} lines={lines} format={short} span={range.seconds} /></section>;
}

type SeekKind = "beginning" | "end" | "offset" | "time";

function SeekDialog({ group, close }: { group: string; close: () => void }): JSX.Element {
  const [kind, setKind] = useState<SeekKind>("end");
  const [offset, setOffset] = useState("");
  const [time, setTime] = useState("");
  const id = useId();
  const seek = async (event: globalThis.Event): Promise<void> => {
    event.preventDefault();
    const body = kind === "offset" ? { offset: Number(offset) } : kind === "time" ? { time: new Date(time).toISOString() } : { place: kind };
    const done = await attempt(
      () => change<{ lag_events: number }>("POST", path`/groups/${group}/seek`, body),
      ({ lag_events }) => `${group} was moved: ${plural(lag_events, "event")} to read`,
    );
    if (done) close();
  };
  return (
    <Dialog title={`Move ${plain(group)}`} onClose={close}>
      <form onSubmit={seek}>
        <div class="dialog-body">
          <p>The group reads on from there. Going back delivers events again; going forward leaves events out.</p>
          <Segments label="where to" value={kind} onChange={setKind} options={[["beginning", "Beginning"], ["end", "End"], ["offset", "Offset"], ["time", "Time"]]} />
          {kind === "offset" && <div class="field"><label for={id}>Read on behind this offset</label><input id={id} type="number" min={0} required value={offset} onInput={(event) => setOffset(event.currentTarget.value)} /></div>}
          {kind === "time" && <div class="field"><label for={id}>From the first event that occurred then</label><input id={id} type="datetime-local" step={1} required value={time} onInput={(event) => setTime(event.currentTarget.value)} /></div>}
        </div>
        <footer><button type="button" onClick={close}>Cancel</button><button type="submit" class="danger">Move the group</button></footer>
      </form>
    </Dialog>
  );
}

