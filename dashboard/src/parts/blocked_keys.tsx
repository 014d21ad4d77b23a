// Keys that wait behind an event that failed, and what lets them go on.

import type { JSX } from "preact";
import { change, get, path, withQuery } from "../api";
import { count, plain } from "../format";
import { to } from "../places";
import { useResource } from "../resource";
import type { BlockedKey, EventWay, List } from "../types";
import { Act, attempt } from "./act";
import { Due, Empty, Loading, Name, Panel, Refused, State } from "./basic";
import { ask } from "./dialog";
import { Table } from "./table";

// The dead letter of a group at an offset; the event's way names it.
async function letterAt(group: string, outbox: string, offset: number): Promise<string> {
  const way = await get<EventWay>(withQuery(path`/events/${offset}`, { outbox }));
  const letter = way.groups.find((one) => one.group_name === group)?.dead_letter;
  if (letter === null || letter === undefined) throw new Error("the event is no dead letter any more");
  return String(letter);
}

export function BlockedKeys({ group, outbox, quiet }: { group: string; outbox: string; quiet?: boolean }): JSX.Element | null {
  const { data, problem } = useResource<List<BlockedKey>>(path`/groups/${group}/blocked`);
  const replay = (key: BlockedKey): Promise<boolean> =>
    attempt(async () => change("POST", "/dead-letters/replay", { letters: [await letterAt(group, outbox, key.offset)] }), () => `${key.key} goes on: its first event is delivered again`);
  const skip = async (key: BlockedKey): Promise<void> => {
    const reason = await ask({
      title: "Go on without this event", danger: true, yes: "Discard the event", reason: "Why",
      body: <p>The event at offset {key.offset} is given up for good, and {count(key.waiting)} events of <bdi>{plain(key.key)}</bdi> go on. The audit trail keeps it.</p>,
    });
    if (reason === null) return;
    await attempt(async () => change("POST", "/dead-letters/discard", { letters: [await letterAt(group, outbox, key.offset)], reason }), () => `${key.key} goes on without the event`);
  };
  if (quiet && data?.items.length === 0) return null;
  return (
    <Panel title={quiet ? group : "Blocked keys"} about={quiet ? undefined : "Keys that wait behind an event that failed."} flush>
      {problem && <Refused problem={problem} />}
      {!data && !problem && <Loading />}
      {data && (
        <Table<BlockedKey>
          caption={`blocked keys of ${plain(group)}`}
          rows={data.items}
          id={(key) => key.key}
          columns={[
            { name: "key", cell: (key) => <Name of={key.key} href={to.keyEvents(outbox, key.key)} mono /> },
            { name: "in front", number: true, cell: (key) => <a href={to.eventAt(outbox, key.offset)}>{key.offset}</a> },
            { name: "state", cell: (key) => <State of={key.state} /> },
            { name: "attempts", number: true, cell: (key) => count(key.attempts) },
            { name: "again", cell: (key) => <Due at={key.due_at} /> },
            { name: "wait behind it", number: true, cell: (key) => count(key.waiting) },
            { name: "error", wide: true, cell: (key) => <span class="error-text">{plain(key.error)}</span> },
            {
              name: "", cell: (key) =>
                key.state === "dead" ? (
                  <span class="row-actions"><Act small icon="replay" onClick={() => replay(key)}>Replay</Act><Act small tone="danger" onClick={() => skip(key)}>Skip</Act></span>
                ) : <span class="faint">goes by itself</span>,
            },
          ]}
          empty={<Empty title="No key is blocked" />}
        />
      )}
    </Panel>
  );
}
