// Aggregates of an ordered inbox that wait for a message which has not come.

import type { JSX } from "preact";
import { change, path } from "../api";
import { count, duration, plain, plural } from "../format";
import { useResource } from "../resource";
import type { Gap, List } from "../types";
import { Act, attempt } from "./act";
import { Empty, Loading, Name, Panel, Refused } from "./basic";
import { ask } from "./dialog";
import { Table } from "./table";

export function Gaps({ inbox, quiet }: { inbox: string; quiet?: boolean }): JSX.Element | null {
  const { data, problem } = useResource<List<Gap>>(path`/inboxes/${inbox}/gaps`);
  const skip = async (gap: Gap): Promise<void> => {
    const missing = gap.found - gap.expected;
    const answer = await ask({
      title: "Go on without what is missing", danger: true, yes: `Skip ${plural(missing, "message")}`,
      body: <p><bdi>{plain(gap.aggregate)}</bdi> waits for sequence {gap.expected} and has {gap.found}. It goes on with {gap.found}; what is skipped counts as handled if it comes later.</p>,
    });
    if (answer === null) return;
    await attempt(
      () => change<{ sequence: number }>("POST", path`/inboxes/${inbox}/skip`, { aggregate: gap.aggregate, to_sequence: gap.found - 1 }),
      (done) => `${gap.aggregate} goes on behind sequence ${done.sequence}`,
    );
  };
  if (quiet && data?.items.length === 0) return null;
  return (
    <Panel title={quiet ? inbox : "Gaps"} about={quiet ? undefined : "Aggregates that wait for a message which has not come."} flush>
      {problem && <Refused problem={problem} />}
      {!data && !problem && <Loading />}
      {data && (
        <Table<Gap>
          caption={`gaps of ${plain(inbox)}`}
          rows={data.items}
          id={(gap) => gap.aggregate}
          columns={[
            { name: "aggregate", cell: (gap) => <Name of={gap.aggregate} mono /> },
            { name: "waits for", number: true, cell: (gap) => count(gap.expected) },
            { name: "has", number: true, cell: (gap) => count(gap.found) },
            { name: "since", cell: (gap) => duration(gap.seconds) },
            { name: "", cell: (gap) => <Act small tone="danger" onClick={() => skip(gap)}>Skip…</Act> },
          ]}
          empty={<Empty title="There is no gap" />}
        />
      )}
    </Panel>
  );
}
