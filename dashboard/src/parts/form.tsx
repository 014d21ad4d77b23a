// Fields of forms and filters.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useState } from "preact/hooks";

interface TextFieldProps {
  label: string;
  value: string;
  onChange: (value: string) => void; // when somebody stops typing, or presses Enter
  type?: "text" | "datetime-local";
  placeholder?: string;
  wide?: boolean;
}

export function FilterField({ label, value, onChange, type = "text", placeholder, wide }: TextFieldProps): JSX.Element {
  const id = useId();
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  useEffect(() => {
    if (typed === value) return undefined;
    const timer = setTimeout(() => onChange(typed), 350);
    return () => clearTimeout(timer);
  }, [typed]);
  return (
    <div class={`field ${wide ? "wide" : ""} ${type === "text" ? "" : "time"}`}>
      <label for={id}>{label}</label>
      {type === "text"
        ? <input id={id} value={typed} placeholder={placeholder} autocomplete="off" spellcheck={false} onInput={(event) => setTyped(event.currentTarget.value)} />
        : <input id={id} type="datetime-local" value={typed} step={1} onInput={(event) => setTyped(event.currentTarget.value)} />}
    </div>
  );
}

export function Choice({ label, value, onChange, options }: { label: string; value: string; onChange: (value: string) => void; options: [string, string][] }): JSX.Element {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <select id={id} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {options.map(([key, name]) => <option key={key} value={key}>{name}</option>)}
      </select>
    </div>
  );
}

// One of a few, side by side.
export function Segments<T extends string>({ label, value, onChange, options }: { label: string; value: T; onChange: (value: T) => void; options: [T, string][] }): JSX.Element {
  return (
    <div class="segments" role="group" aria-label={label}>
      {options.map(([key, name]) => (
        <button key={key} type="button" aria-pressed={key === value} onClick={() => onChange(key)}>{name}</button>
      ))}
    </div>
  );
}

export const Filters = ({ children }: { children: ComponentChildren }): JSX.Element => <div class="filters" role="search" aria-label="filter">{children}</div>;
