// Small things that every page is made of.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Problem } from "../api";
import { ago, moment, none, plain } from "../format";
import { wasMoved } from "../router";
import { Store, useStore } from "../store";
import { Icon, type IconName } from "./icons";
import { notify } from "./notices";

export type Tone = "good" | "warn" | "bad" | "accent" | "quiet";

export function Badge({ tone = "quiet", children }: { tone?: Tone; children: ComponentChildren }): JSX.Element {
  return <span class={`badge ${tone}`}>{children}</span>;
}

const tones: Record<string, Tone> = {
  running: "good", active: "good", healthy: "good", ok: "good", processed: "good", settled: "good", enabled: "good", open: "good", live: "good",
  "in trouble": "bad", retrying: "bad", halted: "bad", failed: "bad", dead: "bad", broken: "bad", stopped: "bad", error: "bad", critical: "bad", unhealthy: "bad", "no relay": "bad", "left out": "bad",
  retry: "warn", degraded: "warn", failing: "warn", warning: "warn", blocked: "warn", paused: "warn", left: "warn",
  leased: "accent", pending: "accent", starting: "accent", connecting: "accent",
};

// A state in one word. The word says everything; the colour only repeats it.
export function State({ of, children }: { of: string | null | undefined; children?: ComponentChildren }): JSX.Element {
  if (!of) return <span class="faint">{none}</span>;
  return <Badge tone={tones[of.toLowerCase()] ?? "quiet"}>{children ?? plain(of)}</Badge>;
}

// The time on this page; it moves every two seconds, for all at once.
const clockStore = new Store(Date.now());
setInterval(() => document.hidden || clockStore.set(Date.now()), 2000);
export const useNow = (): number => useStore(clockStore);

export function Ago({ at }: { at: string | null | undefined }): JSX.Element {
  const now = useNow();
  if (!at) return <span class="faint">{none}</span>;
  return <time dateTime={at} title={moment(at, true)}>{ago(at, now)}</time>;
}
// When something is to happen; what should have happened already is due.
export function Due({ at }: { at: string | null | undefined }): JSX.Element {
  const now = useNow();
  if (at && Date.parse(at) <= now) return <time dateTime={at} title={moment(at, true)}>due</time>;
  return <Ago at={at} />;
}
export function Moment({ at, millis }: { at: string | null | undefined; millis?: boolean }): JSX.Element {
  if (!at) return <span class="faint">{none}</span>;
  return <time dateTime={at} title={at} class="nowrap">{moment(at, millis)}</time>;
}

// A name of somebody else's making: text, whatever it holds.
export function Name({ of, href, mono }: { of: string | null | undefined; href?: string; mono?: boolean }): JSX.Element {
  if (of === null || of === undefined || of === "") return <span class="faint">{none}</span>;
  const text = <bdi class={mono ? "name mono" : "name"} title={of.length > 24 ? plain(of) : undefined}>{plain(of)}</bdi>;
  return href ? <a href={href}>{text}</a> : text;
}

export function CopyButton({ text, what = "command" }: { text: string; what?: string }): JSX.Element {
  const [copied, setCopied] = useState(false);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
      setTimeout(() => setCopied(false), 1500);
      notify(`${what} copied`, "quiet");
    } catch {
      notify("the browser does not allow copying here: select the text instead", "bad");
    }
  };
  return (
    <button type="button" class="ghost small" onClick={copy} aria-label={`copy ${what}`} title={`copy ${what}`}>
      <Icon name={copied ? "check" : "copy"} size={14} />
    </button>
  );
}

// A command or a statement, to be copied.
export function Command({ children }: { children: string }): JSX.Element {
  return (
    <div class="command">
      <code tabIndex={0}>{plain(children)}</code>
      <CopyButton text={children} />
    </div>
  );
}

export function Refused({ problem, retry }: { problem: Problem; retry?: () => void }): JSX.Element {
  return (
    <div class="note bad" role="alert">
      <Icon name="dead" size={18} />
      <div>
        <strong>{plain(problem.message)}</strong>
        {problem.hint && <p>{plain(problem.hint)}</p>}
        {problem.sqlstate && <p class="faint">SQLSTATE {problem.sqlstate}</p>}
      </div>
      {retry && <button type="button" class="small" onClick={retry}>Try again</button>}
    </div>
  );
}

export function Note({ tone = "quiet", icon, children }: { tone?: Tone; icon?: IconName; children: ComponentChildren }): JSX.Element {
  return (
    <div class={`note ${tone}`}>
      {icon && <Icon name={icon} size={18} />}
      <div>{children}</div>
    </div>
  );
}

// Nothing is here, and what to do about it.
export function Empty({ title, icon = "check", children, command }: { title: string; icon?: IconName; children?: ComponentChildren; command?: string }): JSX.Element {
  return (
    <div class="empty">
      <span class="empty-icon"><Icon name={icon} size={22} /></span>
      <p class="empty-title">{title}</p>
      {children && <p class="faint">{children}</p>}
      {command && <Command>{command}</Command>}
    </div>
  );
}

export const Loading = (): JSX.Element => (
  <div class="loading" role="status"><span class="hidden">loading</span><i /><i /><i /></div>
);

interface PageProps {
  title: string;
  kind?: string;
  under?: { name: string; href: string };
  about?: ComponentChildren;
  actions?: ComponentChildren;
  children: ComponentChildren;
}

// A page. Its heading has the focus after a change of place, so that a screen reader begins there.
export function Page({ title, kind, under, about, actions, children }: PageProps): JSX.Element {
  const heading = useRef<HTMLHeadingElement>(null);
  const shown = plain(title);
  useEffect(() => {
    document.title = `${shown} · baton`;
    if (wasMoved() && !document.activeElement?.closest("dialog, .search")) heading.current?.focus({ preventScroll: true });
  }, [shown]);
  return (
    <article class="page">
      <header class="page-head">
        <div class="page-title">
          {under && <p class="crumbs"><a href={under.href}>{under.name}</a> <span aria-hidden="true">/</span></p>}
          <h1 ref={heading} tabIndex={-1}><bdi>{shown}</bdi>{kind && <small>{kind}</small>}</h1>
          {about && <p class="about">{about}</p>}
        </div>
        {actions && <div class="actions">{actions}</div>}
      </header>
      {children}
    </article>
  );
}

export function Panel({ title, about, actions, flush, children }: { title?: string; about?: ComponentChildren; actions?: ComponentChildren; flush?: boolean; children: ComponentChildren }): JSX.Element {
  return (
    <section class={flush ? "panel flush" : "panel"} aria-label={title}>
      {(title || actions) && (
        <header class="panel-head">
          <div>{title && <h2>{title}</h2>}{about && <p class="faint">{about}</p>}</div>
          {actions && <div class="actions">{actions}</div>}
        </header>
      )}
      <div class="panel-body">{children}</div>
    </section>
  );
}

// Names and what they stand for.
export function Facts({ items }: { items: [string, ComponentChildren][] }): JSX.Element {
  return (
    <dl class="facts">
      {items.map(([name, value]) => (
        <div key={name}><dt>{name}</dt><dd>{value === null || value === undefined || value === "" ? <span class="faint">{none}</span> : value}</dd></div>
      ))}
    </dl>
  );
}

export function Stat({ label, value, unit, sub, tone, children }: { label: string; value: string; unit?: string; sub?: ComponentChildren; tone?: Tone; children?: ComponentChildren }): JSX.Element {
  return (
    <div class={`stat ${tone ?? ""}`}>
      <span class="stat-label">{label}</span>
      <span class="stat-value">{value}{unit && <small> {unit}</small>}</span>
      {sub && <span class="stat-sub">{sub}</span>}
      {children}
    </div>
  );
}
