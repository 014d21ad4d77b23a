import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { brief } from "../json";
import { newestAlert } from "../live";
import { Ago, Badge, Empty, Loading, Moment, Name, Page, Panel, Refused } from "../parts/basic";
import { Table } from "../parts/table";
import { useResource } from "../resource";
import type { Alert, List } from "../types";

export function AlertsPage(): JSX.Element {
  const { data, problem, reload } = useResource<List<Alert>>("/alerts");
  useEffect(() => newestAlert.subscribe(reload), [reload]);
  return (
    <Page title="Alerts" about="What the database told on the channel baton_alert while this program listened, the newest first.">
      {problem && <Refused problem={problem} retry={reload} />}
      {data ? (
        <Panel flush>
          <Table<Alert & { n: number }> caption="alerts" rows={data.items.map((alert, i) => ({ ...alert, n: data.items.length - i }))} id={(alert) => `${alert.at} ${alert.n}`}
            columns={[
              { name: "when", cell: (alert) => <><Moment at={alert.at} /> <span class="faint"><Ago at={alert.at} /></span></> },
              { name: "what", cell: (alert) => <Badge tone="warn">{alert.event.replaceAll("_", " ")}</Badge> },
              { name: "of", cell: (alert) => <Name of={alert.object} /> },
              { name: "more", wide: true, cell: (alert) => <code class="brief">{brief(alert.detail, 300)}</code> },
            ]}
            empty={<Empty icon="alert" title="No alert was heard" command="listen baton_alert;">Any session can listen, too. Alert rules for Prometheus are in monitoring/.</Empty>} />
        </Panel>
      ) : !problem && <Loading />}
    </Page>
  );
}
