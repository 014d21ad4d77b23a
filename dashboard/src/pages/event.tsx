// One event's whole way: committed, leased, sent, acknowledged, parked, received, handled.

import type { ComponentChildren, JSX } from "preact";
import { path, withQuery } from "../api";
import { count, moment, nameOf, plain, plural } from "../format";
import { Ago, CopyButton, Empty, Facts, Loading, Moment, Name, Page, Panel, Refused, State, type Tone } from "../parts/basic";
import { Failures } from "../parts/failures";
import { Icon, type IconName } from "../parts/icons";
import { JsonView } from "../parts/json_view";
import { to } from "../places";
import { useResource } from "../resource";
import { usePlace } from "../router";
import type { Arrival, Delivery, EventWay } from "../types";

interface Step {
  at: string | null;
  icon: IconName;
  tone: Tone;
  title: ComponentChildren;
  body?: ComponentChildren;
}

const words: Record<string, string> = {
  settled: "delivered and settled", waiting: "waits to be read", leased: "is being worked on", retry: "failed, and is tried again",
  blocked: "waits behind an earlier event of its key", dead: "was given up: a dead letter", scheduled: "is scheduled for later",
};
const toneOf: Record<string, Tone> = { settled: "good", waiting: "quiet", leased: "accent", retry: "warn", blocked: "warn", dead: "bad", scheduled: "accent" };

function LetterLink({ name }: { name: string }): JSX.Element {
  return <p><a class="button small" href={to.letter(name)}>Look at the dead letter<Icon name="arrow" size={14} /></a></p>;
}

// In an adopted outbox the row itself is what stands where groups do.
function delivery(one: Delivery, adopted: boolean): Step {
  return {
    at: one.settled_at ?? one.leased_at ?? one.parked_at,
    icon: one.state === "settled" ? "check" : one.state === "dead" ? "dead" : "group",
    tone: toneOf[one.state] ?? "quiet",
    title: <>{adopted ? <>the row of <Name of={nameOf(one.group_name)} href={to.outbox(one.group_name)} /></> : <Name of={one.group_name} href={to.group(one.group_name)} />} {words[one.state] ?? one.state} <State of={one.state} /></>,
    body: (
      <>
        {one.attempts > 0 && <p>{plural(one.attempts, "attempt")} failed{one.due_at && <>, the next one <Ago at={one.due_at} /></>}</p>}
        {one.consumer && <p>with <Name of={one.consumer} mono />{one.leased_until && <>, until <Ago at={one.leased_until} /></>}</p>}
        {one.failures?.length ? <Failures of={one.failures} /> : one.error && <p class="error-text">{plain(one.error)}</p>}
        {one.dead_letter !== null && <LetterLink name={String(one.dead_letter)} />}
      </>
    ),
  };
}

function arrivals(one: Arrival): Step[] {
  const inbox = <Name of={one.inbox} href={to.inbox(one.inbox)} />;
  const steps: Step[] = one.received_at || !one.processed_at ? [{ at: one.received_at, icon: "inbox", tone: "accent", title: <>received by inbox {inbox}</> }] : [];
  if (one.processed_at) steps.push({ at: one.processed_at, icon: "check", tone: "good", title: <>handled in {inbox}</> });
  else
    steps.push({
      at: null, icon: one.state === "dead" ? "dead" : "job", tone: one.state === "dead" ? "bad" : "quiet",
      title: <>{one.state === "dead" ? "given up" : "waits to be handled"} in {inbox} <State of={one.state} /></>,
      body: (
        <>
          {one.attempts !== null && one.attempts > 0 && <p>{plural(one.attempts, "attempt")} failed</p>}
          {one.leased_by && <p>with <Name of={one.leased_by} mono /></p>}
          {one.error && <p class="error-text">{plain(one.error)}</p>}
          {one.dead_letter && <LetterLink name={one.dead_letter} />}
        </>
      ),
    });
  return steps;
}

function stepsOf(way: EventWay): Step[] {
  const { event } = way;
  const dated: Step[] = [
    {
      at: event.occurred_at, icon: "outbox", tone: "accent",
      title: <>published to <Name of={nameOf(way.outbox)} href={to.outbox(way.outbox)} /> {way.row === null ? <>at offset {count(event.offset)}</> : <>as row <Name of={way.row} mono /></>}</>,
    },
    ...(way.committed_at ? [{ at: way.committed_at, icon: "check" as const, tone: "accent" as const, title: "committed" }] : []),
    ...way.inboxes.flatMap(arrivals),
    ...way.actions.map((one): Step => ({ at: one.at, icon: "user", tone: "quiet", title: <><bdi>{plain(one.acting_for ?? one.actor)}</bdi>: {plain(one.action.replaceAll("_", " "))} in <Name of={one.object} /></> })),
  ];
  const known = dated.filter((step) => step.at).sort((a, b) => Date.parse(a.at!) - Date.parse(b.at!));
  const deliveries = way.groups.map((one) => delivery(one, way.row !== null));
  return [...known.slice(0, 1), ...deliveries, ...known.slice(1), ...dated.filter((step) => !step.at)];
}

export function EventPage({ name }: { name: string }): JSX.Element {
  const { query } = usePlace();
  const { data, problem, reload } = useResource<EventWay>(withQuery(path`/events/${name}`, { outbox: query.get("outbox") }), 2000);
  return (
    <Page title={data?.event.event_type ?? "Event"} kind="event" under={{ name: "Events", href: data ? to.events(data.outbox) : "/events" }}
      about={data && <><code>{data.event.event_id}</code> <CopyButton text={data.event.event_id} what="id" /></>}>
      {problem && (problem.status === 404 ? <Panel><Empty icon="search" title={plain(problem.message)}>{plain(problem.hint)}</Empty></Panel> : <Refused problem={problem} retry={reload} />)}
      {!data && !problem && <Loading />}
      {data && (
        <div class="columns event">
          <Panel title="Its way"><Timeline way={data} /></Panel>
          <div class="stack">
            <Panel title="What it says"><JsonView value={data.event.payload} label="payload" /></Panel>
            <Panel title="About"><EventFacts way={data} /></Panel>
            <Panel title="Headers"><JsonView value={data.event.headers} label="headers" /></Panel>
          </div>
        </div>
      )}
    </Page>
  );
}

function Timeline({ way }: { way: EventWay }): JSX.Element {
  const began = Date.parse(way.event.occurred_at);
  const steps = stepsOf(way);
  return (
    <>
      <ol class="timeline">
        {steps.map((step, i) => (
          <li key={i} class={step.tone}>
            <span class="dot"><Icon name={step.icon} size={14} /></span>
            <div>
              <p class="step">{step.title}</p>
              {step.at && <p class="faint"><time dateTime={step.at}>{moment(step.at, true)}</time>{i > 0 && `, ${count(Date.parse(step.at) - began)} ms after it occurred`}</p>}
              {step.body}
            </div>
          </li>
        ))}
      </ol>
      {way.groups.length === 0 && <p class="faint">No group reads this outbox.</p>}
    </>
  );
}

function EventFacts({ way: { event, outbox, committed_at } }: { way: EventWay }): JSX.Element {
  return (
    <Facts items={[
      ["type", <Name of={event.event_type} />], ["key", <Name of={event.key} href={event.key ? to.keyEvents(outbox, event.key) : undefined} mono />],
      ["aggregate", event.aggregate_id && <><Name of={event.aggregate_type} /> <Name of={event.aggregate_id} mono /></>], ["topic", <Name of={event.topic} />], ["tenant", <Name of={event.tenant_id} />],
      ["trace", <Name of={event.trace_id} mono />], ["occurred", <Moment at={event.occurred_at} millis />],
      ["committed", committed_at ? <Moment at={committed_at} millis /> : <span class="faint">not kept by the server (track_commit_timestamp)</span>],
    ]} />
  );
}
