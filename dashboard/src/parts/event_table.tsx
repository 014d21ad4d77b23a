import type { JSX } from "preact";
import { nameOf } from "../format";
import { brief } from "../json";
import { to } from "../places";
import type { Event } from "../types";
import { Empty, Loading, Moment, Name } from "./basic";
import { Table } from "./table";

// Events of an outbox; without one, each says where it is.
export function EventTable({ outbox, events, loading }: { outbox?: string; events: Event[]; loading: boolean }): JSX.Element {
  if (loading) return <Loading />;
  const home = (event: Event): string => event.outbox ?? outbox ?? "";
  const place = (event: Event): string | number => event.row ?? event.offset ?? event.event_id;
  const link = (event: Event): string => to.eventAt(home(event), place(event));
  return (
    <Table<Event>
      caption="events"
      rows={events}
      id={(event) => `${home(event)} ${place(event)}`}
      columns={[
        ...(outbox ? [] : [{ name: "outbox", cell: (event: Event) => <Name of={nameOf(home(event))} href={to.outbox(home(event))} /> }]),
        { name: events.some((event) => event.row) ? "offset or row" : "offset", number: true, cell: (event) => <a href={link(event)}>{place(event)}</a> },
        { name: "type", cell: (event) => <Name of={event.event_type} href={link(event)} /> },
        { name: "key", cell: (event) => <Name of={event.key} href={event.key ? to.keyEvents(home(event), event.key) : undefined} mono />, hideEmpty: (event) => !event.key },
        { name: "occurred", cell: (event) => <Moment at={event.occurred_at} millis /> },
        { name: "payload", wide: true, cell: (event) => <code class="brief">{brief(event.payload)}</code> },
      ]}
      empty={<Empty icon="event" title="No event is here">Nothing fits, or nothing was published yet.</Empty>}
    />
  );
}
