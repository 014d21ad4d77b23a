// A payload to look at. It is text, coloured by what its words are; long ones are shown in part first.

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { count } from "../format";
import { print, type Json } from "../json";
import { CopyButton } from "./basic";

const most = 20_000; // letters before somebody asks for more
const words = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d[\d.eE+-]*)|(true|false|null)/g;

function coloured(text: string): (JSX.Element | string)[] {
  const parts: (JSX.Element | string)[] = [];
  let from = 0;
  for (const found of text.matchAll(words)) {
    if (found.index > from) parts.push(text.slice(from, found.index));
    const [whole, string, colon] = found;
    const kind = string ? (colon ? "j-name" : "j-text") : found[3] ? "j-number" : "j-word";
    parts.push(<span class={kind}>{string ?? whole}</span>);
    if (colon) parts.push(colon);
    from = found.index + whole.length;
  }
  parts.push(text.slice(from));
  return parts;
}

export function JsonView({ value, label }: { value: Json | undefined; label: string }): JSX.Element {
  const text = useMemo(() => print(value), [value]);
  const [all, setAll] = useState(false);
  const shown = all ? text : text.slice(0, most);
  const body = useMemo(() => (shown.length > most ? [shown] : coloured(shown)), [shown]);
  return (
    <div class="json">
      <pre tabIndex={0} role="region" aria-label={label}>{body}</pre>
      <div class="json-tools"><CopyButton text={text} what={label} /></div>
      {shown.length < text.length && (
        <button type="button" class="small" onClick={() => setAll(true)}>show all {count(text.length)} letters</button>
      )}
    </div>
  );
}
