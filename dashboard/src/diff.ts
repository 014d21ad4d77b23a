// Which lines of a text became others.

export interface Line {
  kind: "same" | "gone" | "new";
  text: string;
}

const largest = 4_000_000; // cells of the table below; beyond, all of the middle counts as changed

// The longest common part decides; what both texts begin and end with needs no table.
export function diff(before: string, after: string): Line[] {
  const old = before.split("\n");
  const now = after.split("\n");
  let head = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) head++;
  let tail = 0;
  while (tail < old.length - head && tail < now.length - head && old[old.length - 1 - tail] === now[now.length - 1 - tail]) tail++;
  const same = (text: string): Line => ({ kind: "same", text });
  return [
    ...old.slice(0, head).map(same),
    ...middle(old.slice(head, old.length - tail), now.slice(head, now.length - tail)),
    ...old.slice(old.length - tail).map(same),
  ];
}

function middle(old: string[], now: string[]): Line[] {
  if (old.length * now.length > largest)
    return [...old.map((text): Line => ({ kind: "gone", text })), ...now.map((text): Line => ({ kind: "new", text }))];
  const width = now.length + 1;
  const common = new Uint32Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i--)
    for (let j = now.length - 1; j >= 0; j--)
      common[i * width + j] =
        old[i] === now[j] ? common[(i + 1) * width + j + 1]! + 1 : Math.max(common[(i + 1) * width + j]!, common[i * width + j + 1]!);
  const lines: Line[] = [];
  let i = 0;
  let j = 0;
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) lines.push({ kind: "same", text: (j++, old[i++]!) });
    else if (j >= now.length || (i < old.length && common[(i + 1) * width + j]! >= common[i * width + j + 1]!)) lines.push({ kind: "gone", text: old[i++]! });
    else lines.push({ kind: "new", text: now[j++]! });
  }
  return lines;
}
