// What needs somebody, each with what mends it.

import type { JSX } from "preact";
import { plain } from "../format";
import { stepFor, to, type Step } from "../places";
import type { Finding, Relay, RelayPipeline } from "../types";
import { Badge, Command, Empty } from "./basic";
import { Icon } from "./icons";

export interface Shown extends Finding {
  step: Step | null;
}

const failing = new Set(["retrying", "halted", "failed"]);

export const isFailing = (one: RelayPipeline): boolean => failing.has(one.state);

// What a pipeline does, in a word: one that runs and cannot deliver is in trouble.
export const stateOf = (one: RelayPipeline): string => (one.trouble && !failing.has(one.state) ? "in trouble" : one.state);

// What a relay says about its own pipelines is known here before the database knows it; then it is told once.
export function relayFindings(relay: Relay | null | undefined, known: Finding[]): Shown[] {
  const found: Shown[] = [];
  for (const one of relay?.pipelines ?? []) {
    if (!failing.has(one.state) && !one.trouble) continue;
    const why = one.trouble || one.detail;
    if (known.some((finding) => finding.object === one.pipeline && why && finding.what.includes(why))) continue;
    found.push({
      severity: "error",
      object: one.pipeline,
      what: `${stateOf(one)}: ${one.trouble || one.detail || "no reason is known"}`,
      fix: null,
      note: null,
      step: { label: "Look at the pipeline", href: to.pipeline(one.pipeline) },
    });
  }
  return found;
}

export const databaseFindings = (findings: Finding[]): Shown[] => findings.map((finding) => ({ ...finding, step: stepFor(finding) }));

// The same thing may be told several times, of several objects.
export function Findings({ findings, quiet }: { findings: Shown[]; quiet?: string }): JSX.Element {
  if (findings.length === 0) return <Empty title={quiet ?? "Nothing needs you"}>Every check is green.</Empty>;
  const ordered = [...findings].sort((a, b) => a.severity.localeCompare(b.severity));
  return (
    <ul class="findings">
      {ordered.map((finding, i) => (
        <li key={`${finding.object} ${i}`} class={finding.severity}>
          <Icon name={finding.severity === "error" ? "dead" : "alert"} size={18} />
          <div class="finding">
            <p class="what">
              <Badge tone={finding.severity === "error" ? "bad" : "warn"}>{finding.severity}</Badge> <strong><bdi>{plain(finding.object)}</bdi></strong> {plain(finding.what)}
            </p>
            {finding.fix && <Command>{finding.fix}</Command>}
            {finding.note && <p class="faint">{plain(finding.note)}</p>}
          </div>
          {finding.step && <a class="button small" href={finding.step.href}>{finding.step.label}<Icon name="arrow" size={14} /></a>}
        </li>
      ))}
    </ul>
  );
}
