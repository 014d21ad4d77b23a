import { count, duration, nameOf, none, short } from "../format";
import { to } from "../places";
import type { Group } from "../types";
import { Badge, Name, State } from "./basic";
import type { Column } from "./table";

// Who works for a group: a relay that owns it, or consumers.
export function served(group: Group): { word: string; tone: string } {
  if (group.owner) return { word: "relay", tone: "running" };
  if (group.healthy_consumers) return { word: `${count(group.healthy_consumers)} of ${count(group.consumers)} consumers`, tone: "running" };
  return (group.lag_events ?? 0) > 0 ? { word: "nobody", tone: "error" } : { word: "nobody", tone: "idle" };
}

export const groupColumns = (withOutbox = false): Column<Group>[] => [
  { name: "group", sort: (group) => group.group, cell: (group) => <Name of={group.group} href={to.group(group.group)} /> },
  ...(withOutbox ? [{ name: "outbox", sort: (group: Group) => group.outbox, cell: (group: Group) => <Name of={nameOf(group.outbox)} href={to.outbox(group.outbox)} /> }] : []),
  { name: "served by", cell: (group) => <State of={served(group).tone}>{served(group).word}</State> },
  { name: "lag", number: true, sort: (group) => group.lag_events, cell: (group) => short(group.lag_events) },
  { name: "oldest", number: true, sort: (group) => group.lag_seconds, cell: (group) => (group.lag_events ? duration(group.lag_seconds) : none) },
  { name: "retrying", number: true, sort: (group) => group.retrying, cell: (group) => count(group.retrying) },
  { name: "blocked", number: true, sort: (group) => group.blocked, cell: (group) => count(group.blocked) },
  { name: "dead", number: true, sort: (group) => group.dead_letters, cell: (group) => (group.dead_letters ? <a class="bad-text" href={to.letters(group.group)}>{count(group.dead_letters)}</a> : "0") },
  { name: "order", cell: (group) => (group.ordered ? <Badge>by key</Badge> : <span class="faint">none</span>) },
];
