// What a pipeline would send next, asked for only when somebody wants to see it.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { path, withQuery } from "../api";
import { plain, plural } from "../format";
import { to } from "../places";
import { useResource } from "../resource";
import type { Rendered } from "../types";
import { Command, Facts, Loading, Name, Note, Panel, Refused } from "./basic";
import { JsonView } from "./json_view";

export function RenderPanel({ name }: { name: string }): JSX.Element {
  const [asked, setAsked] = useState(false);
  const { data, problem } = useResource<Rendered>(asked ? withQuery(path`/pipelines/${name}/render`, { limit: 5 }) : null, 0);
  return (
    <Panel title="What it would send next" about="Nothing is sent and nothing moves." actions={!asked && <button type="button" class="small" onClick={() => setAsked(true)}>Show</button>}>
      {problem && <Refused problem={problem} />}
      {asked && !data && !problem && <Loading />}
      {data && <Told rendered={data} />}
      {data?.items.map((one) => (
        <div key={one.event_id} class="rendered">
          <Facts items={[["destination", <Name of={one.destination} mono />], ["key", <Name of={one.key} mono />], ["event", <Name of={one.event_id} href={to.event(one.event_id)} mono />]]} />
          <JsonView value={one.headers} label="headers" />
          <pre class="body" tabIndex={0}>{plain(one.body).slice(0, 5000)}</pre>
        </div>
      ))}
      {!asked && <Command>{`baton render ${name}`}</Command>}
    </Panel>
  );
}

// Whether these events wait, and which of those looked at would not be sent, and why.
function Told({ rendered: { waiting, items, left_out } }: { rendered: Rendered }): JSX.Element {
  const none = items.length + left_out.length === 0;
  return (
    <>
      <p data-waiting={String(waiting)}>
        {none ? "The outbox has no events." : waiting ? "These wait for the pipeline." : "Nothing waits: every event is delivered. These are the last ones of the outbox, as they would be sent."}
      </p>
      {left_out.length > 0 && (
        <Note tone="warn" icon="alert">
          <strong>{plural(left_out.length, "event")} would not be sent</strong>
          <ul class="left-out">{left_out.map((one) => <li key={one.offset}>offset {one.offset}: <bdi>{plain(one.why)}</bdi></li>)}</ul>
        </Note>
      )}
    </>
  );
}
