import type { JSX } from "preact";
import { brief } from "../json";
import { to } from "../places";
import type { Event } from "../types";
import { Empty, Loading, Moment, Name } from "./basic";
import { Table } from "./table";

export function EventTable({ outbox, events, loading }: { outbox: string; events: Event[]; loading: boolean }): JSX.Element {
  if (loading) return <Loading />;
  return (
    <Table<Event>
      caption="events"
      rows={events}
      id={(event) => String(event.offset)}
      columns={[
        { name: "offset", number: true, cell: (event) => <a href={to.eventAt(outbox, event.offset)}>{event.offset}</a> },
        { name: "type", cell: (event) => <Name of={event.event_type} href={to.eventAt(outbox, event.offset)} /> },
        { name: "key", cell: (event) => <Name of={event.key} href={event.key ? to.keyEvents(outbox, event.key) : undefined} mono />, hideEmpty: (event) => !event.key },
        { name: "occurred", cell: (event) => <Moment at={event.occurred_at} millis /> },
        { name: "payload", wide: true, cell: (event) => <code class="brief">{brief(event.payload)}</code> },
      ]}
      empty={<Empty icon="event" title="No event is here">Nothing fits, or nothing was published yet.</Empty>}
    />
  );
}
