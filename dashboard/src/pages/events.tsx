// Search in all outboxes, adopted ones too: by id, key, type and time.

import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { asTime, nameOf } from "../format";
import { Empty, Page, Panel, Refused } from "../parts/basic";
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
  const all = outboxes.data?.items ?? [];
  // A name may come with its schema or without.
  const chosen = all.find((one) => nameOf(one.outbox) === nameOf(word("outbox")));
  const outbox = chosen?.outbox ?? word("outbox");
  const pages = usePages<Event>("/events", { outbox, event_type: word("type"), key: word("key"), since: asTime(word("since")), until: asTime(word("until")) });
  const set = (name: string) => (value: string): void => setQuery({ [name]: value.trim() });
  const findId = (id: string): void => {
    if (/^[0-9a-f-]{36}$/i.test(id.trim())) navigate(to.event(id.trim()));
    else if (outbox && (/^\d+$/.test(id.trim()) || (chosen?.kind !== "managed" && id.trim()))) navigate(to.eventAt(outbox, id.trim()));
  };
  useEffect(() => {
    if (word("id")) findId(word("id"));
  }, [word("id"), outbox]);
  if (outboxes.data && all.length === 0)
    return <Page title="Events"><Panel><Empty icon="event" title="There is no outbox yet" command="select baton.create_outbox('orders');">Events are kept in outboxes.</Empty></Panel></Page>;
  return (
    <Page title="Events" about="The latest first, of all outboxes or of one. An id leads to the event's whole way; so does an offset or a row of the outbox chosen.">
      <Panel flush>
        <Filters>
          <Choice label="Outbox" value={outbox} onChange={(name) => setQuery({ outbox: name })} options={[["", "all outboxes"], ...all.map((one): [string, string] => [one.outbox, nameOf(one.outbox)])]} />
          <FilterField label="Id or offset" value="" onChange={findId} placeholder="018f… or 42" wide />
          <FilterField label="Key" value={word("key")} onChange={set("key")} />
          <FilterField label="Type" value={word("type")} onChange={set("type")} placeholder="order.placed" />
          <FilterField label="Since" type="datetime-local" value={word("since")} onChange={set("since")} />
          <FilterField label="Until" type="datetime-local" value={word("until")} onChange={set("until")} />
        </Filters>
        {outboxes.problem && <Refused problem={outboxes.problem} retry={outboxes.reload} />}
        {pages.problem && <Refused problem={pages.problem} retry={pages.reload} />}
        <EventTable events={pages.items} loading={pages.loading} {...(outbox ? { outbox } : {})} />
        <More pages={pages} what="event" />
      </Panel>
    </Page>
  );
}
