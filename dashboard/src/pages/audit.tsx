import type { JSX } from "preact";
import { brief } from "../json";
import { Empty, Loading, Moment, Name, Page, Panel, Refused } from "../parts/basic";
import { FilterField, Filters } from "../parts/form";
import { JsonView } from "../parts/json_view";
import { More } from "../parts/more";
import { Table } from "../parts/table";
import { usePages } from "../pages_of";
import { setQuery, usePlace } from "../router";
import type { Action } from "../types";

export function AuditPage(): JSX.Element {
  const object = usePlace().query.get("object") ?? "";
  const pages = usePages<Action>("/audit", { object });
  return (
    <Page title="Audit trail" about="Who changed what, the latest first.">
      <Panel flush>
        <Filters><FilterField label="Of" value={object} onChange={(words) => setQuery({ object: words.trim() })} placeholder="a group, an inbox, a setting" wide /></Filters>
        {pages.problem && <Refused problem={pages.problem} retry={pages.reload} />}
        {pages.loading ? <Loading /> : (
          <Table<Action> caption="audit trail" rows={pages.items} id={(action) => action.cursor}
            columns={[
              { name: "when", cell: (action) => <Moment at={action.at} /> },
              { name: "who", cell: (action) => <><Name of={action.acting_for ?? action.actor} />{action.acting_for && <span class="faint"> as <bdi>{action.actor}</bdi></span>}</> },
              { name: "what", cell: (action) => action.action.replaceAll("_", " ") },
              { name: "to", cell: (action) => <Name of={action.object} mono /> },
              { name: "how", wide: true, cell: (action) => <details class="more-details"><summary><code class="brief">{brief(action.details, 90)}</code></summary><JsonView value={action.details} label="details" /></details> },
            ]}
            empty={<Empty icon="audit" title="Nothing was changed yet">Replays, edits, seeks, settings and pipelines stand here once somebody changes them.</Empty>} />
        )}
        <More pages={pages} what="change" />
      </Panel>
    </Page>
  );
}
