import type { JSX } from "preact";
import { Empty, Loading, Page, Panel, Refused } from "../parts/basic";
import { BlockedAggregates } from "../parts/blocked_aggregates";
import { BlockedKeys } from "../parts/blocked_keys";
import { Gaps } from "../parts/gaps";
import { useResource } from "../resource";
import type { Group, Inbox, List } from "../types";

export function BlockedPage(): JSX.Element {
  const groups = useResource<List<Group>>("/groups");
  const inboxes = useResource<List<Inbox>>("/inboxes");
  const problem = groups.problem ?? inboxes.problem;
  // A dead letter blocks its key only where the group says so; nothing else holds a key up.
  const held = groups.data?.items.filter((group) => group.retrying > 0 || group.blocked > 0 || (group.dead_letters > 0 && group.on_poison !== "park")) ?? [];
  const ordered = inboxes.data?.items.filter((inbox) => inbox.ordered) ?? [];
  return (
    <Page title="Gaps and blocked keys" about="What keeps order, and therefore waits.">
      {problem && <Refused problem={problem} retry={groups.reload} />}
      {!groups.data && !problem && <Loading />}
      {groups.data && (
        <>
          <h2 class="section">Keys behind an event that failed</h2>
          {held.length === 0 && <Panel><Empty title="No key is blocked">Events of one key wait only behind an event of theirs that failed.</Empty></Panel>}
          {held.map((group) => <BlockedKeys key={group.group} group={group.group} outbox={group.outbox} quiet={held.length > 1} />)}
          <h2 class="section">Aggregates that wait for a message</h2>
          {ordered.length === 0 && <Panel><Empty title="No inbox keeps an order" command="select baton.enable_inbox_ordering('payments', sequence_num_col => 'sequence_num');">An ordered inbox handles messages of an aggregate by their sequence.</Empty></Panel>}
          {ordered.map((inbox) => <Gaps key={inbox.inbox} inbox={inbox.inbox} quiet={ordered.length > 1} />)}
          {ordered.length > 0 && <h2 class="section">Aggregates behind a message that failed</h2>}
          {ordered.map((inbox) => <BlockedAggregates key={inbox.inbox} inbox={inbox.inbox} quiet={ordered.length > 1} />)}
        </>
      )}
    </Page>
  );
}
