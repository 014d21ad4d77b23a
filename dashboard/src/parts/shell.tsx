// What surrounds every page: where to go, what is searched for, whether the page is live, who looks at it.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { duration } from "../format";
import { connect, live } from "../live";
import { usePlace } from "../router";
import { useStore } from "../store";
import { switchTheme, theme } from "../theme";
import { useNow } from "./basic";
import { Questions } from "./dialog";
import { Icon, type IconName } from "./icons";
import { Navigation } from "./navigation";
import { Notices, notify } from "./notices";
import { SearchBox } from "./search_box";
import { Account, SignInDialog } from "./sign_in";

const themeIcons: Record<string, IconName> = { auto: "auto", light: "sun", dark: "moon" };

function ThemeSwitch(): JSX.Element {
  const chosen = useStore(theme);
  const label = `theme: ${chosen === "auto" ? "as the system has it" : chosen}`;
  return (
    <button type="button" class="ghost" aria-label={label} title={label} onClick={() => notify(`theme: ${switchTheme()}`, "quiet")}>
      <Icon name={themeIcons[chosen]!} />
    </button>
  );
}

function LiveState(): JSX.Element {
  const { state } = useStore(live);
  const words = { live: "live", connecting: "connecting", lost: "connection lost" }[state];
  return <span class={`live ${state}`} role="status" data-live={state}><i aria-hidden="true" />{words}</span>;
}

// What the page shows is old then, and it says so.
function ConnectionLost(): JSX.Element | null {
  const { state, lostAt } = useStore(live);
  const now = useNow();
  if (state !== "lost") return null;
  return (
    <div class="banner bad" role="alert">
      <Icon name="dead" />
      <span><strong>Connection lost.</strong> What you see is {duration(Math.max(1, (now - lostAt) / 1000))} old. Trying again…</span>
      <button type="button" class="small" onClick={connect}>Try now</button>
    </div>
  );
}

function DatabaseLost(): JSX.Element | null {
  const { state, tick } = useStore(live);
  if (state !== "live" || !tick || tick.overview) return null;
  return (
    <div class="banner bad" role="alert">
      <Icon name="dead" />
      <span><strong>The database does not answer.</strong> Deliveries wait for it and lose nothing.</span>
    </div>
  );
}

export function Shell({ children }: { children: ComponentChildren }): JSX.Element {
  const [open, setOpen] = useState(false);
  const { path } = usePlace();
  const server = useStore(live).tick?.overview?.server;
  useEffect(() => setOpen(false), [path]);
  useEffect(() => {
    if (!open) return undefined;
    const close = (event: KeyboardEvent): void => void (event.key === "Escape" && setOpen(false));
    document.addEventListener("keydown", close);
    return () => document.removeEventListener("keydown", close);
  }, [open]);
  return (
    <div class="shell">
      <a class="skip" href="#main">Skip to the page</a>
      <header class="top">
        <button type="button" class="ghost menu" aria-expanded={open} aria-controls="side" aria-label="pages" onClick={() => setOpen(!open)}>
          <Icon name={open ? "close" : "menu"} size={18} />
        </button>
        <a class="brand" href="/" aria-label="baton, overview"><Mark />baton</a>
        <SearchBox />
        <div class="top-right"><LiveState /><ThemeSwitch /><Account /></div>
      </header>
      <div id="side" class={open ? "side open" : "side"}>
        <Navigation onGo={() => setOpen(false)} />
        {server && (
          <p class="server faint">
            {server.database} · PostgreSQL {server.postgresql.split(" ")[0]}
            <br />
            baton {server.installed}{server.standby ? ", a standby" : ""}
          </p>
        )}
      </div>
      {open && <div class="veil" onClick={() => setOpen(false)} />}
      <div class="content">
        <ConnectionLost />
        <DatabaseLost />
        <main id="main" tabIndex={-1}>{children}</main>
      </div>
      <Notices />
      <Questions />
      <SignInDialog />
    </div>
  );
}

// A baton on its way.
function Mark(): JSX.Element {
  return (
    <svg viewBox="0 0 24 24" width="20" height="20" aria-hidden="true" focusable="false">
      <g fill="none" stroke="currentColor" stroke-linecap="round">
        <path class="mark-way" d="M2 19h6M2 14.5h3.5" stroke-width="2" />
        <path class="mark-baton" d="M9.5 17.5 20 5.5" stroke-width="5" />
      </g>
    </svg>
  );
}
