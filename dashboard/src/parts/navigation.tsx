import type { JSX } from "preact";
import { short } from "../format";
import { live } from "../live";
import { usePlace } from "../router";
import { useStore } from "../store";
import type { Overview } from "../types";
import { Icon, type IconName } from "./icons";

interface NavigationLink {
  name: string;
  href: string;
  icon: IconName;
  count?: (overview: Overview) => number;
  bad?: boolean; // a count other than zero needs somebody
}

export const navigation: { title: string; links: NavigationLink[] }[] = [
  { title: "", links: [{ name: "Overview", href: "/", icon: "overview" }] },
  {
    title: "Flow",
    links: [
      { name: "Outboxes", href: "/outboxes", icon: "outbox", count: ({ totals }) => totals.outboxes },
      { name: "Groups", href: "/groups", icon: "group", count: ({ totals }) => totals.groups },
      { name: "Pipelines", href: "/pipelines", icon: "pipeline" },
      { name: "Inboxes", href: "/inboxes", icon: "inbox", count: ({ totals }) => totals.inboxes },
      { name: "Stream tables", href: "/stream-tables", icon: "stream", count: ({ totals }) => totals.stream_tables },
    ],
  },
  {
    title: "Events",
    links: [
      { name: "Events", href: "/events", icon: "event" },
      { name: "Dead letters", href: "/dead-letters", icon: "dead", count: ({ totals }) => totals.dead_letters, bad: true },
      { name: "Gaps and blocks", href: "/blocked", icon: "block" },
    ],
  },
  {
    title: "Upkeep",
    links: [
      { name: "Leases and owners", href: "/leases", icon: "lease" },
      { name: "Storage", href: "/storage", icon: "storage" },
      { name: "Jobs", href: "/jobs", icon: "job" },
      { name: "Settings", href: "/settings", icon: "settings" },
    ],
  },
  {
    title: "Watch",
    links: [
      { name: "Doctor", href: "/doctor", icon: "doctor" },
      { name: "Alerts", href: "/alerts", icon: "alert" },
      { name: "Audit trail", href: "/audit", icon: "audit" },
    ],
  },
];

const isHere = (href: string, path: string): boolean => (href === "/" ? path === "/" : path === href || path.startsWith(href + "/"));

export function Navigation({ onGo }: { onGo: () => void }): JSX.Element {
  const { path } = usePlace();
  const overview = useStore(live).tick?.overview;
  return (
    <nav aria-label="pages">
      {navigation.map((section) => (
        <div key={section.title} class="nav-section">
          {section.title && <p class="nav-title" aria-hidden="true">{section.title}</p>}
          <ul aria-label={section.title || undefined}>
            {section.links.map((link) => {
              const count = overview && link.count ? link.count(overview) : 0;
              return (
                <li key={link.href}>
                  <a href={link.href} aria-current={isHere(link.href, path) ? "page" : undefined} onClick={onGo}>
                    <Icon name={link.icon} />
                    <span>{link.name}</span>
                    {count > 0 && <span class={link.bad ? "count bad" : "count"}>{short(count)}</span>}
                  </a>
                </li>
              );
            })}
          </ul>
        </div>
      ))}
    </nav>
  );
}
