import type { JSX } from "preact";
import { duration, nameOf, plain } from "../format";
import { live } from "../live";
import { Ago, Empty, Facts, Loading, Name, Page, Panel, Refused, State } from "../parts/basic";
import { LeaseTable } from "../parts/lease_table";
import { Table } from "../parts/table";
import { to } from "../places";
import { useResource } from "../resource";
import { useStore } from "../store";
import type { Group, List, Publisher } from "../types";

export function LeasesPage(): JSX.Element {
  const groups = useResource<List<Group>>("/groups", 2000);
  const publishers = useResource<List<Publisher>>("/publishers", 2000);
  const tick = useStore(live).tick;
  const owned = groups.data?.items.filter((group) => group.owner) ?? [];
  return (
    <Page title="Leases and owners" about="Who works on what, and until when. What is not renewed goes to the next.">
      {groups.problem && <Refused problem={groups.problem} retry={groups.reload} />}
      <Panel title="Duties">
        <Facts items={[["jobs are run by", plain(tick?.overview?.server.jobs_run_by ?? "nobody")], ["relay behind this page", <Name of={tick?.relay?.name} mono />]]} />
      </Panel>
      <Panel title="Groups that a relay owns" flush>
        {groups.data ? (
          <Table<Group> caption="groups that a relay owns" rows={owned} id={(group) => group.group}
            columns={[
              { name: "group", sort: (group) => group.group, cell: (group) => <Name of={group.group} href={to.group(group.group)} /> },
              { name: "outbox", cell: (group) => <Name of={nameOf(group.outbox)} href={to.outbox(group.outbox)} /> },
              { name: "owner", sort: (group) => group.owner, cell: (group) => <Name of={group.owner} mono /> },
              { name: "lease ends", cell: (group) => <Ago at={group.owned_until} /> },
            ]}
            empty={<Empty icon="lease" title="No relay owns a group now" command="baton relay --config relay.toml">A relay owns the groups of its pipelines while it runs.</Empty>} />
        ) : !groups.problem && <Loading />}
      </Panel>
      <Panel title="Leases of consumers" flush><LeaseTable /></Panel>
      <Panel title="Transactions that have published and are open" about="Their events wait for their commit; nobody else's do." flush>
        {publishers.data ? (
          <Table<Publisher> caption="transactions that have published and are open" rows={publishers.data.items} id={(one) => `${one.pid} ${one.outbox}`}
            columns={[
              { name: "process", cell: (one) => <code>{one.pid}</code> }, { name: "outbox", cell: (one) => <Name of={nameOf(one.outbox)} href={to.outbox(one.outbox)} /> },
              { name: "role", cell: (one) => <Name of={one.role} /> }, { name: "program", cell: (one) => <Name of={one.application} /> },
              { name: "open for", number: true, sort: (one) => one.seconds, cell: (one) => duration(one.seconds) }, { name: "state", cell: (one) => <State of={one.state} /> },
            ]}
            empty={<Empty title="None is open" />} />
        ) : publishers.problem ? <Refused problem={publishers.problem} /> : <Loading />}
      </Panel>
    </Page>
  );
}
