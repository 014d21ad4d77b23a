// Search: by id, key, type and time.

import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { path } from "../api";
import { asTime, nameOf } from "../format";
import { Empty, Loading, Page, Panel, Refused } from "../parts/basic";
import { EventTable } from "../parts/event_table";
import { Choice, FilterField, Filters } from "../parts/form";
import { More } from "../parts/more";
import { usePages } from "../pages_of";
import { to } from "../places";
import { useResource } from "../resource";
import { navigate, setQuery, usePlace } from "../router";
import type { Event, List, Outbox } from "../types";

export function EventsPage(): JSX.Element {
  const { query } = usePlace();
  const word = (name: string): string => query.get(name) ?? "";
  const outboxes = useResource<List<Outbox>>("/outboxes", 0);
  const managed = outboxes.data?.items.filter((one) => one.kind === "managed") ?? [];
  const busiest = [...managed].sort((a, b) => (b.published ?? 0) - (a.published ?? 0))[0]?.outbox ?? "";
  // A name may come with its schema or without.
  const named = managed.find((one) => nameOf(one.outbox) === nameOf(word("outbox")))?.outbox;
  const outbox = named || word("outbox") || busiest;
  const pages = usePages<Event>(outbox ? path`/outboxes/${outbox}/events` : null, { event_type: word("type"), key: word("key"), since: asTime(word("since")), until: asTime(word("until")) });
  const set = (name: string) => (value: string): void => setQuery({ [name]: value.trim() });
  const findId = (id: string): void => {
    if (/^[0-9a-f-]{36}$/i.test(id.trim())) navigate(to.event(id.trim()));
    else if (/^\d+$/.test(id.trim()) && outbox) navigate(to.eventAt(outbox, Number(id)));
  };
  useEffect(() => {
    if (word("id")) findId(word("id"));
  }, [word("id"), outbox]);
  if (outboxes.data && managed.length === 0)
    return <Page title="Events"><Panel><Empty icon="event" title="There is no outbox yet" command="select baton.create_outbox('orders');">Events are kept in outboxes.</Empty></Panel></Page>;
  return (
    <Page title="Events" about="The latest first. An id or an offset leads to the event's whole way.">
      <Panel flush>
        <Filters>
          <Choice label="Outbox" value={outbox} onChange={(name) => setQuery({ outbox: name })} options={(managed.length ? managed.map((one) => one.outbox) : [outbox]).map((name) => [name, nameOf(name)])} />
          <FilterField label="Id or offset" value="" onChange={findId} placeholder="018f… or 42" wide />
          <FilterField label="Key" value={word("key")} onChange={set("key")} />
          <FilterField label="Type" value={word("type")} onChange={set("type")} placeholder="order.placed" />
          <FilterField label="Since" type="datetime-local" value={word("since")} onChange={set("since")} />
          <FilterField label="Until" type="datetime-local" value={word("until")} onChange={set("until")} />
        </Filters>
        {outboxes.problem && <Refused problem={outboxes.problem} retry={outboxes.reload} />}
        {pages.problem && <Refused problem={pages.problem} retry={pages.reload} />}
        {outbox ? <EventTable outbox={outbox} events={pages.items} loading={pages.loading} /> : <Loading />}
        <More pages={pages} what="event" />
      </Panel>
    </Page>
  );
}
