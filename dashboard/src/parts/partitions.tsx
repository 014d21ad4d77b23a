import type { JSX } from "preact";
import { path } from "../api";
import { bytes, count, plain } from "../format";
import { to } from "../places";
import { useResource } from "../resource";
import type { List, Partition } from "../types";
import { Ago, Empty, Loading, Name, Refused, State } from "./basic";
import { Table } from "./table";

export function PartitionTable({ outbox }: { outbox: string }): JSX.Element {
  const { data, problem } = useResource<List<Partition>>(path`/outboxes/${outbox}/partitions`, 15_000);
  if (problem) return <Refused problem={problem} />;
  if (!data) return <Loading />;
  const full = Math.max(1, ...data.items.map((one) => one.bytes ?? 0));
  return (
    <Table<Partition>
      caption={`partitions of ${plain(outbox)}`}
      rows={data.items}
      id={(one) => String(one.first_offset)}
      columns={[
        { name: "partition", cell: (one) => <Name of={one.partition} mono /> },
        { name: "state", cell: (one) => <State of={one.state} /> },
        { name: "offsets", cell: (one) => <span class="nowrap">{count(one.first_offset)} to {count(one.end_offset - 1)}</span> },
        { name: "since", cell: (one) => <Ago at={one.since} /> },
        { name: "size", number: true, sort: (one) => one.bytes, cell: (one) => bytes(one.bytes) },
        { name: "of the largest", cell: (one) => <meter min={0} max={full} value={one.bytes ?? 0} aria-label={`${bytes(one.bytes)} of ${bytes(full)}`} /> },
        { name: "kept by", wide: true, cell: (one) => (one.waits_for?.length ? one.waits_for.map((group) => <span key={group}><Name of={group} href={to.group(group)} /> </span>) : <span class="faint">nobody</span>) },
      ]}
      empty={<Empty icon="storage" title="No partition is known yet" command="call baton.run_maintenance();">Maintenance makes the partitions ahead of the events.</Empty>}
    />
  );
}
