// One box that finds everything with a name: pages, outboxes, groups, pipelines, inboxes, stream tables, and
// events by their id. `/` goes there.

import type { JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { get } from "../api";
import { plain } from "../format";
import { to } from "../places";
import { navigate } from "../router";
import type { Group, Inbox, List, Outbox, Pipeline, StreamTable } from "../types";
import { Icon, type IconName } from "./icons";
import { navigation } from "./navigation";

interface Hit {
  name: string;
  kind: string;
  icon: IconName;
  href: string;
}

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

const kinds: { where: string; kind: string; icon: IconName; hit: (one: never) => [string, string] }[] = [
  { where: "/outboxes", kind: "outbox", icon: "outbox", hit: (one: Outbox) => [one.outbox, to.outbox(one.outbox)] },
  { where: "/groups", kind: "group", icon: "group", hit: (one: Group) => [one.group, to.group(one.group)] },
  { where: "/pipelines", kind: "pipeline", icon: "pipeline", hit: (one: Pipeline) => [one.pipeline, to.pipeline(one.pipeline)] },
  { where: "/inboxes", kind: "inbox", icon: "inbox", hit: (one: Inbox) => [one.inbox, to.inbox(one.inbox)] },
  { where: "/stream-tables", kind: "stream table", icon: "stream", hit: (one: StreamTable) => [one.stream_table, to.stream(one.stream_table)] },
];

async function everything(): Promise<Hit[]> {
  const pages = navigation.flatMap((section) => section.links.map((link): Hit => ({ name: link.name, kind: "page", icon: link.icon, href: link.href })));
  const named = await Promise.all(
    kinds.map(async ({ where, kind, icon, hit }) => {
      try {
        const { items } = await get<List<never>>(where);
        return items.map((one): Hit => {
          const [name, href] = hit(one);
          return { name, kind, icon, href };
        });
      } catch {
        return [];
      }
    }),
  );
  return [...named.flat(), ...pages];
}

function hitsFor(typed: string, known: Hit[]): Hit[] {
  const words = typed.trim().toLowerCase();
  if (!words) return [];
  if (uuid.test(words)) return [{ name: words, kind: "event", icon: "event", href: to.event(words) }];
  const found = known.filter((hit) => hit.name.toLowerCase().includes(words)).slice(0, 8);
  const exact = typed.trim();
  return [
    ...found,
    { name: exact, kind: "search events by key", icon: "search", href: `/events?key=${encodeURIComponent(exact)}` },
    { name: exact, kind: "search events by type", icon: "search", href: `/events?type=${encodeURIComponent(exact)}` },
  ];
}

export function SearchBox(): JSX.Element {
  const input = useRef<HTMLInputElement>(null);
  const [typed, setTyped] = useState("");
  const [known, setKnown] = useState<Hit[]>([]);
  const [active, setActive] = useState(0);
  const [open, setOpen] = useState(false);
  const id = useId();
  const hits = hitsFor(typed, known);
  const shown = open && hits.length > 0;

  useEffect(() => {
    const focus = (event: KeyboardEvent): void => {
      const target = event.target as HTMLElement;
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || target.closest("input, textarea, select, dialog, [contenteditable]")) return;
      event.preventDefault();
      input.current?.focus();
      input.current?.select();
    };
    document.addEventListener("keydown", focus);
    return () => document.removeEventListener("keydown", focus);
  }, []);

  const go = (hit: Hit | undefined): void => {
    if (!hit) return;
    setTyped("");
    setOpen(false);
    input.current?.blur();
    navigate(hit.href);
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.key === "ArrowDown") setActive((active + 1) % Math.max(1, hits.length));
    else if (event.key === "ArrowUp") setActive((active + hits.length - 1) % Math.max(1, hits.length));
    else if (event.key === "Enter") go(hits[active]);
    else if (event.key === "Escape") {
      setOpen(false);
      setTyped("");
    } else return;
    event.preventDefault();
  };

  return (
    <div class="search" role="search">
      <Icon name="search" />
      <input
        ref={input}
        type="text"
        role="combobox"
        aria-label="search for a name, or the id, key or type of an event"
        aria-expanded={shown}
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        aria-activedescendant={shown ? `${id}-${active}` : undefined}
        placeholder="Search names, event ids, keys"
        autocomplete="off"
        spellcheck={false}
        value={typed}
        onFocus={() => {
          setOpen(true);
          void everything().then(setKnown);
        }}
        onBlur={() => setOpen(false)}
        onInput={(event) => {
          setTyped(event.currentTarget.value);
          setActive(0);
          setOpen(true);
        }}
        onKeyDown={onKey}
      />
      <kbd aria-hidden="true">/</kbd>
      <ul id={`${id}-list`} role="listbox" aria-label="what was found" hidden={!shown}>
        {shown &&
          hits.map((hit, i) => (
            <li
              key={hit.kind + hit.href}
              id={`${id}-${i}`}
              role="option"
              aria-selected={i === active}
              onMouseDown={(event) => {
                event.preventDefault();
                go(hit);
              }}
              onMouseEnter={() => setActive(i)}
            >
              <Icon name={hit.icon} />
              <bdi>{plain(hit.name)}</bdi>
              <span class="faint">{hit.kind}</span>
            </li>
          ))}
      </ul>
    </div>
  );
}
