// The past as the server kept it, with what has come since.

import { useEffect, useRef, useState } from "preact/hooks";
import { changes, get, withQuery } from "./api";
import { live } from "./live";
import { seriesNames, type History, type Tick } from "./types";

export interface Range {
  name: string;
  seconds: number;
  step: number;
}
export const ranges: Range[] = [
  { name: "15 min", seconds: 900, step: 10 },
  { name: "1 hour", seconds: 3600, step: 10 },
  { name: "24 hours", seconds: 86_400, step: 60 },
];

// Put a tick behind the history. The next look at the history replaces these.
function extended(past: History, tick: Tick): History {
  const last = past.times[past.times.length - 1] ?? 0;
  if (tick.at <= last) return past;
  const series = { ...past.series };
  for (const name of seriesNames) series[name] = [...(past.series[name] ?? []), tick.sample[name] ?? null];
  const padded = (all: History["pipelines"]): History["pipelines"] =>
    Object.fromEntries(
      Object.entries(all).map(([name, one]) => [name, Object.fromEntries(Object.entries(one).map(([key, values]) => [key, [...values!, values![values!.length - 1] ?? null]]))]),
    );
  return { ...past, times: [...past.times, tick.at], series, pipelines: padded(past.pipelines), groups: padded(past.groups) };
}

export function useHistory(range: Range): History | null {
  const [history, setHistory] = useState<History | null>(null);
  const asked = useRef(0);
  useEffect(() => {
    let ended = false;
    const load = (): void => {
      asked.current = Date.now();
      const since = Math.floor(Date.now() / 1000) - range.seconds;
      get<History>(withQuery("/history", { since, step: range.step })).then(
        (past) => ended || setHistory(past),
        () => undefined, // the page already says that the server does not answer
      );
    };
    setHistory(null);
    load();
    const end = live.subscribe((now) => {
      if (now.state !== "live" || !now.tick || document.hidden) return;
      if (Date.now() - asked.current >= Math.max(10_000, range.step * 1000)) load();
      else if (range.step === 10) setHistory((past) => past && extended(past, now.tick!));
    });
    const endChanges = changes.subscribe(load);
    return () => {
      ended = true;
      end();
      endChanges();
    };
  }, [range]);
  return history;
}
