import type { JSX } from "preact";
import { useId, useState } from "preact/hooks";
import { change, path, Problem, Written } from "../api";
import { bytes, count, duration, nameOf, plain, short } from "../format";
import { parseExact } from "../json";
import { Act, attempt } from "../parts/act";
import { Ago, Empty, Facts, Loading, Name, Note, Page, Panel, Refused, Stat, State } from "../parts/basic";
import { Dialog } from "../parts/dialog";
import { EventTable } from "../parts/event_table";
import { groupColumns } from "../parts/group_columns";
import { PartitionTable } from "../parts/partitions";
import { Table } from "../parts/table";
import { usePages } from "../pages_of";
import { to } from "../places";
import { useResource } from "../resource";
import type { Event, Group, List, Outbox } from "../types";

export function OutboxesPage(): JSX.Element {
  const { data, problem, reload } = useResource<List<Outbox>>("/outboxes");
  return (
    <Page title="Outboxes" about="Logs into which transactions publish, and tables of other programs that were adopted.">
      {problem && <Refused problem={problem} retry={reload} />}
      {data ? (
        <Panel flush>
          <Table<Outbox>
            caption="outboxes"
            rows={data.items}
            id={(one) => one.outbox}
            tone={(one) => (one.problem ? "bad" : "")}
            columns={[
              { name: "outbox", sort: (one) => one.outbox, cell: (one) => <Name of={nameOf(one.outbox)} href={to.outbox(one.outbox)} /> },
              { name: "kind", cell: (one) => <Name of={one.kind} /> },
              { name: "events", number: true, sort: (one) => one.events, cell: (one) => short(one.events) },
              { name: "published", number: true, sort: (one) => one.published, cell: (one) => short(one.published) },
              { name: "newest", cell: (one) => <Ago at={one.newest} /> },
              { name: "size", number: true, sort: (one) => one.bytes, cell: (one) => bytes(one.bytes) },
              { name: "kept", cell: (one) => duration(one.retention_seconds) },
              { name: "groups", number: true, sort: (one) => one.groups, cell: (one) => count(one.groups) },
              { name: "dead", number: true, sort: (one) => one.dead_letters, cell: (one) => (one.dead_letters ? <span class="bad-text">{count(one.dead_letters)}</span> : count(one.dead_letters)) },
              { name: "storage", cell: (one) => (one.problem ? <State of="error">maintenance failed</State> : <State of={one.storage} />) },
            ]}
            empty={<Empty icon="outbox" title="There is no outbox yet" command="select baton.create_outbox('orders');">One statement makes it; your transactions publish into it.</Empty>}
          />
        </Panel>
      ) : !problem && <Loading />}
    </Page>
  );
}

export function OutboxPage({ name }: { name: string }): JSX.Element {
  const { data, problem, reload } = useResource<Outbox>(path`/outboxes/${name}`);
  const groups = useResource<List<Group>>("/groups");
  const managed = data?.kind === "managed";
  const events = usePages<Event>(managed ? path`/outboxes/${name}/events` : null, {});
  const [publishing, setPublishing] = useState(false);
  return (
    <Page title={nameOf(name)} kind="outbox" under={{ name: "Outboxes", href: "/outboxes" }}
      actions={managed && <><a class="button" href={to.events(name)}>Search events</a><Act icon="outbox" onClick={() => setPublishing(true)}>Publish…</Act></>}>
      {problem && <Refused problem={problem} retry={reload} />}
      {!data && !problem && <Loading />}
      {data && (
        <>
          {data.problem && <Note tone="bad" icon="dead"><strong>Maintenance fails.</strong> {plain(data.problem)}</Note>}
          <div class="stats">
            <Stat label="Events kept" value={short(data.events)} sub={data.oldest ? <>oldest <Ago at={data.oldest} /></> : undefined} />
            <Stat label="Published" value={short(data.published)} sub={data.newest ? <>last <Ago at={data.newest} /></> : undefined} />
            <Stat label="On disk" value={bytes(data.bytes)} sub={data.partitions === null ? undefined : `${count(data.partitions)} partitions`} tone={data.storage && data.storage !== "ok" ? "warn" : undefined} />
            <Stat label="Dead letters" value={count(data.dead_letters)} tone={data.dead_letters ? "bad" : undefined} />
          </div>
          <Panel title="About">
            <Facts items={[
              ["kind", data.kind], ["payload", data.payload_type], ["last offset", count(data.last_offset)], ["kept for", duration(data.retention_seconds)],
              ["groups", count(data.groups)], ["large deltas waiting", count(data.claim_checks)], ["storage", <State of={data.storage} />],
            ]} />
          </Panel>
          <Panel title="Groups that read it" flush>
            <Table<Group> caption="groups that read it" rows={(groups.data?.items ?? []).filter((group) => nameOf(group.outbox) === nameOf(data.outbox))} id={(one) => one.group} columns={groupColumns()}
              empty={<Empty icon="group" title="Nobody reads it yet" command={`select baton.create_consumer_group('billing', '${name.replaceAll("'", "''")}', 'earliest');`} />} />
          </Panel>
          {managed && (
            <Panel title="Latest events" flush actions={<a class="button small" href={to.events(name)}>Search</a>}>
              {events.problem ? <Refused problem={events.problem} /> : <EventTable outbox={data.outbox} events={events.items.slice(0, 20)} loading={events.loading} />}
            </Panel>
          )}
          {managed && <Panel title="Partitions" flush><PartitionTable outbox={name} /></Panel>}
        </>
      )}
      {publishing && <PublishDialog outbox={name} close={() => setPublishing(false)} />}
    </Page>
  );
}

function PublishDialog({ outbox, close }: { outbox: string; close: () => void }): JSX.Element {
  const [type, setType] = useState("");
  const [aggregate, setAggregate] = useState("");
  const [payload, setPayload] = useState("{\n  \n}");
  const [wrong, setWrong] = useState("");
  const id = useId();
  const publish = async (event: globalThis.Event): Promise<void> => {
    event.preventDefault();
    try {
      parseExact(payload);
    } catch (error) {
      setWrong((error as Problem).message);
      return;
    }
    const sent = await attempt(
      () => change<{ offset: number }>("POST", path`/outboxes/${outbox}/events`, { event_type: type, payload: new Written(payload), ...(aggregate ? { aggregate_id: aggregate } : {}) }),
      (done) => `published at offset ${done.offset}`,
    );
    if (sent) close();
  };
  return (
    <Dialog title="Publish an event" onClose={close}>
      <form onSubmit={publish}>
        <div class="dialog-body">
          <div class="field"><label for={`${id}t`}>Type</label><input id={`${id}t`} required autoFocus value={type} placeholder="order.placed" onInput={(event) => setType(event.currentTarget.value)} /></div>
          <div class="field"><label for={`${id}a`}>Aggregate id, which keeps the order (may be empty)</label><input id={`${id}a`} value={aggregate} onInput={(event) => setAggregate(event.currentTarget.value)} /></div>
          <div class="field"><label for={`${id}p`}>Payload, JSON</label>
            <textarea id={`${id}p`} class="mono" rows={8} spellcheck={false} value={payload} aria-invalid={!!wrong} aria-describedby={`${id}w`} onInput={(event) => { setPayload(event.currentTarget.value); setWrong(""); }} />
            <p id={`${id}w`} class="bad-text" role="alert">{wrong}</p>
          </div>
        </div>
        <footer><button type="button" onClick={close}>Cancel</button><button type="submit" class="primary" disabled={!type.trim()}>Publish</button></footer>
      </form>
    </Dialog>
  );
}
