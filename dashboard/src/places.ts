// Where on this page something is: the links between its parts.

import { path } from "./api";
import type { Finding } from "./types";

export const to = {
  outbox: (name: string) => path`/outboxes/${name}`,
  group: (name: string) => path`/groups/${name}`,
  pipeline: (name: string) => path`/pipelines/${name}`,
  inbox: (name: string) => path`/inboxes/${name}`,
  stream: (name: string) => path`/stream-tables/${name}`,
  event: (id: string) => path`/events/${id}`,
  eventAt: (outbox: string, place: number | string) => path`/events/${String(place)}` + path`?outbox=${outbox}`,
  events: (outbox: string) => path`/events?outbox=${outbox}`,
  keyEvents: (outbox: string, key: string) => path`/events?outbox=${outbox}&key=${key}`,
  letter: (name: string) => path`/dead-letters/${name}`,
  letters: (place: string) => path`/dead-letters?place=${place}`,
  audit: (object: string) => path`/audit?object=${object}`,
};

// The last word of a command line, as a shell reads it.
function lastWord(command: string): string {
  const quoted = /'((?:[^']|'\\'')*)'\s*$/.exec(command);
  return quoted ? quoted[1]!.replaceAll("'\\''", "'") : (/(\S+)\s*$/.exec(command)?.[1] ?? "");
}

export interface Step {
  label: string;
  href: string;
}

// What mends a finding on this page, where this page can.
export function stepFor(finding: Finding): Step | null {
  const fix = finding.fix ?? "";
  if (fix.startsWith("baton dead ")) return { label: "Look at the dead letters", href: to.letters(lastWord(fix)) };
  if (/^baton groups \S/.test(fix)) return { label: "Look at the group", href: to.group(lastWord(fix.replace(/ --\w+$/, ""))) };
  if (fix.startsWith("baton relay") || fix.startsWith("baton pipelines show")) return { label: "Look at the pipeline", href: to.pipeline(finding.object) };
  if (/^baton inboxes \S/.test(fix)) return { label: "Look at the inbox", href: to.inbox(finding.object) };
  if (fix.includes("stream_table(")) return { label: "Look at the stream table", href: to.stream(finding.object) };
  if (/^baton outboxes .*--partitions/.test(fix)) return { label: "Look at its partitions", href: to.outbox(finding.object) };
  if (fix.startsWith("select baton.set_setting")) return { label: "Change the setting", href: path`/settings?find=${finding.object}` };
  if (fix === "baton jobs" || fix.includes("run_due_jobs()")) return { label: "Look at the jobs", href: "/jobs" };
  return null;
}
