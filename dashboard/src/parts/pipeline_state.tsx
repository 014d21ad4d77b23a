// What is known of a pipeline: by the catalog, and by the relays that run it.

import type { JSX } from "preact";
import type { Pipeline, RunningPipeline } from "../types";
import { Badge, State } from "./basic";
import { isFailing, stateOf } from "./findings";

export interface PipelineRow {
  name: string;
  known: Pipeline | null;
  running: RunningPipeline | null;
}

// Of several relays that have a pipeline, the one counts that does not stand by.
export function rowsOf(known: Pipeline[], running: RunningPipeline[]): PipelineRow[] {
  const names = new Set([...known.map((one) => one.pipeline), ...running.map((one) => one.pipeline)]);
  return [...names].sort().map((name) => {
    const relays = running.filter((one) => one.pipeline === name);
    return { name, known: known.find((one) => one.pipeline === name) ?? null, running: relays.find((one) => one.state !== "standby") ?? relays[0] ?? null };
  });
}

// What hinders it, in its relay's words; empty when nothing does.
export function troubleOf({ known, running }: PipelineRow): string {
  if (!running) return known?.trouble ?? "";
  return running.trouble || (isFailing(running) ? running.detail || running.state : "");
}

export function PipelineState({ row }: { row: PipelineRow }): JSX.Element {
  if (row.known?.enabled === false) return <Badge>disabled</Badge>;
  if (row.running) return <State of={stateOf(row.running)} />;
  return <State of={row.known?.trouble ? "in trouble" : row.known?.state} />;
}
