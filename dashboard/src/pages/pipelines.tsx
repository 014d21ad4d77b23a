import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { milliseconds, nameOf, none, plain, short } from "../format";
import { live } from "../live";
import { Act } from "../parts/act";
import { Ago, Empty, Loading, Name, Page, Panel, Refused } from "../parts/basic";
import { NewPipelineDialog } from "../parts/pipeline_settings";
import { type PipelineRow, PipelineState, rowsOf, troubleOf } from "../parts/pipeline_state";
import { Table } from "../parts/table";
import { to } from "../places";
import { useResource } from "../resource";
import { useStore } from "../store";
import type { List, Pipeline } from "../types";

export function PipelinesPage(): JSX.Element {
  const { data, problem, reload } = useResource<List<Pipeline>>("/pipelines");
  const [making, setMaking] = useState(false);
  const rows = rowsOf(data?.items ?? [], useStore(live).tick?.pipelines ?? []);
  return (
    <Page title="Pipelines" about="From an outbox to a broker, or from a broker into an inbox." actions={<Act icon="plus" onClick={() => setMaking(true)}>New pipeline…</Act>}>
      {problem && <Refused problem={problem} retry={reload} />}
      {data ? (
        <Panel flush>
          <Table<PipelineRow>
            caption="pipelines"
            rows={rows}
            id={(row) => row.name}
            tone={(row) => (troubleOf(row) ? "bad" : "")}
            columns={[
              { name: "pipeline", sort: (row) => row.name, cell: (row) => <Name of={row.name} href={to.pipeline(row.name)} /> },
              { name: "state", cell: (row) => <PipelineState row={row} /> },
              { name: "from", cell: (row) => <Name of={row.known?.source ? nameOf(row.known.source) : row.running?.group} />, hideEmpty: (row) => !row.known?.source && !row.running?.group },
              { name: "to", cell: (row) => <Name of={row.known?.sink} />, hideEmpty: (row) => !row.known?.sink },
              { name: "delivered", number: true, sort: (row) => row.running?.delivered, cell: (row) => short(row.running?.delivered) },
              { name: "failed", number: true, sort: (row) => row.running?.failed, cell: (row) => short(row.running?.failed) },
              { name: "p50", number: true, cell: (row) => milliseconds(row.running?.p50_ms) },
              { name: "p99", number: true, cell: (row) => milliseconds(row.running?.p99_ms) },
              { name: "lag", number: true, cell: (row) => short(row.known?.lag_events) },
              { name: "kept in", cell: (row) => row.known?.kept_in ?? "file" },
              { name: "trouble", wide: true, cell: (row) => <Trouble row={row} />, hideEmpty: (row) => !troubleOf(row) },
            ]}
            empty={<Empty icon="pipeline" title="There is no pipeline yet" command="baton pipelines create --sink kafka orders.toml">This writes a file with remarks. Give it to a relay with --config, or put it into the catalog.</Empty>}
          />
        </Panel>
      ) : !problem && <Loading />}
      {making && <NewPipelineDialog known={rows.map((row) => row.name)} close={() => setMaking(false)} />}
    </Page>
  );
}

function Trouble({ row }: { row: PipelineRow }): JSX.Element {
  const trouble = troubleOf(row);
  if (!trouble) return <span class="faint">{none}</span>;
  return <span class="error-text">{plain(trouble)}{row.known?.trouble_since && <span class="faint"> (since <Ago at={row.known.trouble_since} />)</span>}</span>;
}
