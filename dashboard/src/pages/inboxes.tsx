import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { path } from "../api";
import { count, duration, nameOf, plain, short } from "../format";
import { Empty, Facts, Loading, Moment, Name, Page, Panel, Refused, Stat, State } from "../parts/basic";
import { FilterField, Filters, Segments } from "../parts/form";
import { BlockedAggregates } from "../parts/blocked_aggregates";
import { Gaps } from "../parts/gaps";
import { LetterList } from "../parts/letter_list";
import { More } from "../parts/more";
import { Table } from "../parts/table";
import { brief } from "../json";
import { usePages } from "../pages_of";
import { to } from "../places";
import { useResource } from "../resource";
import type { Inbox, List, Message } from "../types";

export function InboxesPage(): JSX.Element {
  const { data, problem, reload } = useResource<List<Inbox>>("/inboxes");
  return (
    <Page title="Inboxes" about="Messages that came, each handled once, whatever comes twice.">
      {problem && <Refused problem={problem} retry={reload} />}
      {data ? (
        <Panel flush>
          <Table<Inbox>
            caption="inboxes"
            rows={data.items}
            id={(one) => one.inbox}
            columns={[
              { name: "inbox", sort: (one) => one.inbox, cell: (one) => <Name of={nameOf(one.inbox)} href={to.inbox(one.inbox)} /> },
              { name: "health", cell: (one) => <State of={one.health} /> },
              { name: "waiting", number: true, sort: (one) => one.pending, cell: (one) => short(one.pending) },
              { name: "oldest", number: true, sort: (one) => one.oldest_seconds, cell: (one) => (one.pending ? duration(one.oldest_seconds) : "–") },
              { name: "dead", number: true, sort: (one) => one.dead_letters, cell: (one) => (one.dead_letters ? <a class="bad-text" href={to.letters(one.inbox)}>{count(one.dead_letters)}</a> : "0") },
              { name: "order", cell: (one) => (one.ordered ? "by aggregate" : <span class="faint">none</span>) },
              { name: "layout", cell: (one) => <Name of={one.layout} /> },
            ]}
            empty={<Empty icon="inbox" title="There is no inbox yet" command="select baton.create_inbox('payments');">An inbox takes what a broker brings, and knows what it has had.</Empty>}
          />
        </Panel>
      ) : !problem && <Loading />}
    </Page>
  );
}

export function InboxPage({ name }: { name: string }): JSX.Element {
  const { data, problem, reload } = useResource<Inbox>(path`/inboxes/${name}`);
  return (
    <Page title={nameOf(name)} kind="inbox" under={{ name: "Inboxes", href: "/inboxes" }} actions={<a class="button" href={to.audit(data?.inbox ?? name)}>Its history</a>}>
      {problem && <Refused problem={problem} retry={reload} />}
      {!data && !problem && <Loading />}
      {data && (
        <>
          <div class="stats">
            <Stat label="Waiting" value={short(data.pending)} sub={data.pending ? `oldest ${duration(data.oldest_seconds)}` : "all handled"} />
            <Stat label="Dead letters" value={count(data.dead_letters)} tone={data.dead_letters ? "bad" : undefined} sub={data.dead_letters ? <a href={to.letters(data.inbox)}>mend them</a> : undefined} />
            <Stat label="Health" value={data.health} tone={data.health === "healthy" ? undefined : "warn"} />
          </div>
          <Panel title="About">
            <Facts items={[
              ["table", <Name of={data.table} mono />], ["layout", data.layout], ["order", data.ordered ? "messages of an aggregate in their order" : "none"],
              ["urgent first", data.prioritised ? "yes" : "no"], ["attempts", count(data.max_retries)], ["kept for", data.retention_hours === null ? null : duration(data.retention_hours * 3600)],
            ]} />
          </Panel>
          {data.ordered && <Gaps inbox={data.inbox} />}
          {data.ordered && <BlockedAggregates inbox={data.inbox} />}
          {data.dead_letters > 0 && <LetterList filter={{ place: data.inbox }} title="Dead letters" />}
          <Messages inbox={data.inbox} />
        </>
      )}
    </Page>
  );
}

type MessageState = "pending" | "dead" | "processed";

function Messages({ inbox }: { inbox: string }): JSX.Element {
  const [state, setState] = useState<MessageState>("pending");
  const [type, setType] = useState("");
  const [aggregate, setAggregate] = useState("");
  const pages = usePages<Message>(path`/inboxes/${inbox}/messages`, { state, event_type: type, aggregate });
  return (
    <Panel title="Messages" flush>
      <Filters>
        <Segments label="state" value={state} onChange={setState} options={[["pending", "Waiting"], ["processed", "Handled"], ["dead", "Dead"]]} />
        <FilterField label="Type" value={type} onChange={setType} />
        <FilterField label="Aggregate" value={aggregate} onChange={setAggregate} />
      </Filters>
      {pages.problem && <Refused problem={pages.problem} retry={pages.reload} />}
      {pages.loading ? <Loading /> : (
        <Table<Message>
          caption="messages"
          rows={pages.items}
          id={(one) => one.event_id}
          columns={[
            { name: "message", cell: (one) => <Name of={one.event_id} href={/^[0-9a-f-]{36}$/i.test(one.event_id) ? to.event(one.event_id) : undefined} mono /> },
            { name: "type", cell: (one) => <Name of={one.event_type} /> },
            { name: "aggregate", cell: (one) => <Name of={one.aggregate_id} mono />, hideEmpty: (one) => !one.aggregate_id },
            { name: "received", cell: (one) => <Moment at={one.received_at} /> },
            { name: "handled", cell: (one) => <Moment at={one.processed_at} />, hideEmpty: (one) => !one.processed_at },
            { name: "tried", number: true, cell: (one) => count(one.attempts) },
            { name: "worked on by", cell: (one) => <Name of={one.leased_by} mono />, hideEmpty: (one) => !one.leased_by },
            { name: "payload", wide: true, cell: (one) => <><code class="brief">{brief(one.payload)}</code>{one.error && <span class="error-text">{plain(one.error)}</span>}</> },
          ]}
          empty={<Empty icon="inbox" title={state === "pending" ? "Nothing waits" : state === "dead" ? "Nothing is dead" : "Nothing was handled yet"} />}
        />
      )}
      <More pages={pages} />
    </Panel>
  );
}
