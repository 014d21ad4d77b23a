import type { JSX } from "preact";
import { Page } from "../parts/basic";
import { asTime } from "../format";
import { Choice, FilterField, Filters } from "../parts/form";
import { LetterList } from "../parts/letter_list";
import { setQuery, usePlace } from "../router";

export function DeadLettersPage(): JSX.Element {
  const { query } = usePlace();
  const word = (name: string): string => query.get(name) ?? "";
  const set = (name: string) => (value: string): void => setQuery({ [name]: value.trim() });
  return (
    <Page title="Dead letters" about="Events and messages that were given up. Mend the cause or the letter, then replay it.">
      <section class="panel flush" aria-label="filter">
        <Filters>
          <FilterField label="Group, inbox or table" value={word("place")} onChange={set("place")} />
          <Choice label="Of" value={word("kind")} onChange={set("kind")} options={[["", "everything"], ["group", "groups"], ["inbox", "inboxes"], ["outbox", "adopted tables"]]} />
          <FilterField label="Type" value={word("type")} onChange={set("type")} />
          <FilterField label="Error" value={word("error")} onChange={set("error")} />
          <FilterField label="Key" value={word("key")} onChange={set("key")} />
          <FilterField label="Tenant" value={word("tenant")} onChange={set("tenant")} />
          <FilterField label="Since" type="datetime-local" value={word("since")} onChange={set("since")} />
          <FilterField label="Until" type="datetime-local" value={word("until")} onChange={set("until")} />
        </Filters>
      </section>
      <LetterList filter={{
        place: word("place"), kind: word("kind"), event_type: word("type"), error: word("error"), key: word("key"), tenant: word("tenant"),
        since: asTime(word("since")), until: asTime(word("until")),
      }} />
    </Page>
  );
}
