import type { ComponentType, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { loadSession, Problem, session, signIn } from "./api";
import { connect, disconnect, followVisibility } from "./live";
import { Loading, Refused } from "./parts/basic";
import { Notices } from "./parts/notices";
import { Shell } from "./parts/shell";
import { SignInPage } from "./parts/sign_in";
import { AlertsPage } from "./pages/alerts";
import { AuditPage } from "./pages/audit";
import { BlockedPage } from "./pages/blocked";
import { DeadLetterPage } from "./pages/dead_letter";
import { DeadLettersPage } from "./pages/dead_letters";
import { DoctorPage } from "./pages/doctor";
import { EventPage } from "./pages/event";
import { EventsPage } from "./pages/events";
import { GroupPage, GroupsPage } from "./pages/groups";
import { InboxPage, InboxesPage } from "./pages/inboxes";
import { JobsPage } from "./pages/jobs";
import { LeasesPage } from "./pages/leases";
import { NotFoundPage } from "./pages/not_found";
import { OutboxPage, OutboxesPage } from "./pages/outboxes";
import { OverviewPage } from "./pages/overview";
import { PipelinePage } from "./pages/pipeline";
import { PipelinesPage } from "./pages/pipelines";
import { SettingsPage } from "./pages/settings";
import { StoragePage } from "./pages/storage";
import { StreamPage, StreamsPage } from "./pages/stream_tables";
import { match, usePlace } from "./router";
import { useStore } from "./store";

const routes: [string, ComponentType<{ name: string }>][] = [
  ["", OverviewPage],
  ["/outboxes", OutboxesPage],
  ["/outboxes/:", OutboxPage],
  ["/groups", GroupsPage],
  ["/groups/:", GroupPage],
  ["/pipelines", PipelinesPage],
  ["/pipelines/:", PipelinePage],
  ["/inboxes", InboxesPage],
  ["/inboxes/:", InboxPage],
  ["/stream-tables", StreamsPage],
  ["/stream-tables/:", StreamPage],
  ["/events", EventsPage],
  ["/events/:", EventPage],
  ["/dead-letters", DeadLettersPage],
  ["/dead-letters/:", DeadLetterPage],
  ["/blocked", BlockedPage],
  ["/leases", LeasesPage],
  ["/storage", StoragePage],
  ["/jobs", JobsPage],
  ["/settings", SettingsPage],
  ["/doctor", DoctorPage],
  ["/alerts", AlertsPage],
  ["/audit", AuditPage],
];

function CurrentPage(): JSX.Element {
  const { path } = usePlace();
  for (const [pattern, Found] of routes) {
    const names = match(pattern, path);
    if (names) return <Found key={path} name={names[0] ?? ""} />;
  }
  return <NotFoundPage />;
}

// A link may bring its token behind the #, which is sent to no server. It does not stay in the address.
async function arrive(): Promise<void> {
  const token = /^#token=([\w-]+)$/.exec(location.hash)?.[1];
  if (token) {
    history.replaceState(null, "", location.pathname + location.search);
    await signIn(token).catch(() => undefined); // a token of yesterday: whoever follows the link may still look
  }
  await loadSession();
}

export function App(): JSX.Element {
  const who = useStore(session);
  const [problem, setProblem] = useState<Problem | null>(null);
  const load = (): void => {
    setProblem(null);
    arrive().catch((error: unknown) => setProblem(error instanceof Problem ? error : new Problem(String(error))));
  };
  useEffect(() => {
    load();
    followVisibility();
  }, []);
  const mayLook = who !== null && who.right !== "none";
  useEffect(() => {
    if (!mayLook) return undefined;
    connect();
    return disconnect;
  }, [mayLook]);
  if (problem) return <main class="sign-in"><Refused problem={problem} retry={load} /></main>;
  if (!who) return <main class="sign-in"><Loading /></main>;
  if (!mayLook) return <><SignInPage /><Notices /></>;
  return <Shell><CurrentPage /></Shell>;
}
