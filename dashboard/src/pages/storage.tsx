import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { bytes, count, duration, nameOf, short } from "../format";
import { Ago, Empty, Loading, Name, Page, Panel, Refused, Stat, State } from "../parts/basic";
import { Choice } from "../parts/form";
import { PartitionTable } from "../parts/partitions";
import { Table } from "../parts/table";
import { to } from "../places";
import { useResource } from "../resource";
import type { List, Outbox } from "../types";

export function StoragePage(): JSX.Element {
  const { data, problem, reload } = useResource<List<Outbox>>("/outboxes", 10_000);
  const managed = data?.items.filter((one) => one.kind === "managed") ?? [];
  const largest = [...managed].sort((a, b) => (b.bytes ?? 0) - (a.bytes ?? 0));
  const [chosen, setChosen] = useState("");
  const outbox = chosen || largest[0]?.outbox || "";
  const sum = (of: (one: Outbox) => number | null): number => managed.reduce((all, one) => all + (of(one) ?? 0), 0);
  return (
    <Page title="Storage" about="Outboxes are partitioned. A partition goes when it is older than its retention and every group has settled it.">
      {problem && <Refused problem={problem} retry={reload} />}
      {!data && !problem && <Loading />}
      {data && (
        <>
          <div class="stats">
            <Stat label="On disk" value={bytes(sum((one) => one.bytes))} /><Stat label="Events kept" value={short(sum((one) => one.events))} /><Stat label="Partitions" value={count(sum((one) => one.partitions))} />
          </div>
          <Panel title="Outboxes" flush>
            <Table<Outbox> caption="storage of outboxes" rows={largest} id={(one) => one.outbox}
              columns={[
                { name: "outbox", sort: (one) => one.outbox, cell: (one) => <Name of={nameOf(one.outbox)} href={to.outbox(one.outbox)} /> },
                { name: "size", number: true, sort: (one) => one.bytes, cell: (one) => bytes(one.bytes) },
                { name: "share", cell: (one) => <meter min={0} max={largest[0]?.bytes || 1} value={one.bytes ?? 0} aria-label={bytes(one.bytes)} /> },
                { name: "events", number: true, sort: (one) => one.events, cell: (one) => short(one.events) },
                { name: "partitions", number: true, cell: (one) => count(one.partitions) },
                { name: "oldest", cell: (one) => <Ago at={one.oldest} /> }, { name: "kept for", cell: (one) => duration(one.retention_seconds) }, { name: "state", cell: (one) => <State of={one.storage} /> },
              ]}
              empty={<Empty icon="storage" title="There is no outbox yet" command="select baton.create_outbox('orders');" />} />
          </Panel>
          {outbox && (
            <Panel title="Partitions" flush actions={<Choice label="of" value={outbox} onChange={setChosen} options={largest.map((one) => [one.outbox, nameOf(one.outbox)])} />}>
              <PartitionTable outbox={outbox} />
            </Panel>
          )}
        </>
      )}
    </Page>
  );
}
