import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { diff, type Line } from "../diff";

const around = 3; // lines of context
const signs = { same: " ", gone: "−", new: "+" };
const spoken = { same: "", gone: "removed: ", new: "added: " };

// Lines far from every change are left out.
function near(lines: Line[]): (Line | null)[] {
  const keep = new Set<number>();
  lines.forEach((line, i) => {
    if (line.kind !== "same") for (let k = i - around; k <= i + around; k++) keep.add(k);
  });
  const shown: (Line | null)[] = [];
  lines.forEach((line, i) => {
    if (keep.has(i)) shown.push(line);
    else if (shown.length === 0 || shown[shown.length - 1] !== null) shown.push(null);
  });
  return shown;
}

export function DiffView({ before, after }: { before: string; after: string }): JSX.Element {
  const lines = useMemo(() => near(diff(before, after)), [before, after]);
  if (before === after) return <p class="faint">nothing is changed</p>;
  return (
    <div class="diff" tabIndex={0} role="region" aria-label="changes">
      {lines.map((line, i) =>
        line ? (
          <div key={i} class={`line ${line.kind}`}>
            <span aria-hidden="true">{signs[line.kind]}</span>
            <span class="hidden">{spoken[line.kind]}</span>
            <code>{line.text || " "}</code>
          </div>
        ) : (
          <div key={i} class="line skipped" aria-hidden="true">⋯</div>
        ),
      )}
    </div>
  );
}
