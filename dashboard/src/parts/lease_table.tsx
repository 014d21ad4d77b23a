import type { JSX } from "preact";
import { withQuery } from "../api";
import { count } from "../format";
import { to } from "../places";
import { useResource } from "../resource";
import type { Lease, List } from "../types";
import { Ago, Empty, Loading, Name, Refused } from "./basic";
import { Table } from "./table";

export function LeaseTable({ group }: { group?: string }): JSX.Element {
  const { data, problem } = useResource<List<Lease>>(withQuery("/leases", { group }), 2000);
  if (problem) return <Refused problem={problem} />;
  if (!data) return <Loading />;
  return (
    <Table<Lease>
      caption="leases"
      rows={data.items}
      id={(lease) => `${lease.group} ${lease.consumer} ${lease.kind} ${lease.first_offset}`}
      columns={[
        ...(group ? [] : [{ name: "group", sort: (lease: Lease) => lease.group, cell: (lease: Lease) => <Name of={lease.group} href={to.group(lease.group)} /> }]),
        { name: "held by", sort: (lease) => lease.consumer, cell: (lease) => <Name of={lease.consumer} mono /> },
        { name: "what", cell: (lease) => (lease.kind === "parked" ? "one event again" : "a stretch of events") },
        { name: "offsets", cell: (lease) => <span class="nowrap">{count(lease.first_offset)} to {count(lease.last_offset)}</span> },
        { name: "ends", cell: (lease) => <Ago at={lease.leased_until} /> },
      ]}
      empty={<Empty icon="lease" title="No lease runs now">Consumers hold leases while they work. A relay owns its group instead.</Empty>}
    />
  );
}
