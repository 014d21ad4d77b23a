// Aggregates of an ordered inbox that wait behind a message which failed, and what lets them go on.

import type { JSX } from "preact";
import { path } from "../api";
import { count, plain } from "../format";
import { discardLetters, replayLetters } from "../letters";
import { usePages } from "../pages_of";
import { to } from "../places";
import type { BlockedAggregate } from "../types";
import { Act, attempt } from "./act";
import { Ago, Empty, Loading, Name, Panel, Refused, State } from "./basic";
import { ask } from "./dialog";
import { More } from "./more";
import { Table } from "./table";

export function BlockedAggregates({ inbox, quiet }: { inbox: string; quiet?: boolean }): JSX.Element | null {
  const pages = usePages<BlockedAggregate>(path`/inboxes/${inbox}/blocked`, { reason: "message" }); // gaps have a list of their own
  const replay = (one: BlockedAggregate): Promise<boolean> => attempt(() => replayLetters([one.letter!]), () => `${one.aggregate} goes on: its message is handled again`);
  const skip = async (one: BlockedAggregate): Promise<void> => {
    const reason = await ask({
      title: "Go on without this message", danger: true, yes: "Discard the message", reason: "Why",
      body: <p>The message <bdi>{plain(one.event_id)}</bdi> is given up for good, and <bdi>{plain(one.aggregate)}</bdi> goes on. The audit trail keeps it.</p>,
    });
    if (reason !== null) await attempt(() => discardLetters([one.letter!], reason), () => `${one.aggregate} goes on without the message`);
  };
  if (quiet && pages.items.length === 0 && !pages.problem) return null;
  return (
    <Panel title={quiet ? inbox : "Blocked aggregates"} about={quiet ? undefined : "Aggregates that wait behind a message which failed."} flush>
      {pages.problem && <Refused problem={pages.problem} />}
      {pages.loading ? <Loading /> : (
        <Table<BlockedAggregate>
          caption={`blocked aggregates of ${plain(inbox)}`}
          rows={pages.items}
          id={(one) => one.cursor}
          columns={[
            { name: "aggregate", cell: (one) => <Name of={one.aggregate} mono /> },
            { name: "in front", cell: (one) => <Name of={one.event_id} href={one.letter ? to.letter(one.letter) : undefined} mono /> },
            { name: "state", cell: (one) => <State of={one.reason} /> },
            { name: "attempts", number: true, cell: (one) => count(one.attempts) },
            { name: "since", cell: (one) => <Ago at={one.waiting_since} /> },
            { name: "error", wide: true, cell: (one) => <span class="error-text">{plain(one.error)}</span> },
            {
              name: "", cell: (one) =>
                one.letter ? (
                  <span class="row-actions"><Act small icon="replay" onClick={() => replay(one)}>Replay</Act><Act small tone="danger" onClick={() => skip(one)}>Skip</Act></span>
                ) : <span class="faint">goes by itself</span>,
            },
          ]}
          empty={<Empty title="No aggregate is blocked" />}
        />
      )}
      <More pages={pages} what="aggregate" />
    </Panel>
  );
}
