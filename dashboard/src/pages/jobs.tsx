import type { JSX } from "preact";
import { count, duration, milliseconds, plain } from "../format";
import { Ago, Badge, Due, Empty, Loading, Name, Page, Panel, Refused, State } from "../parts/basic";
import { Table } from "../parts/table";
import { useResource } from "../resource";
import type { Job, List } from "../types";

export function JobsPage(): JSX.Element {
  const { data, problem, reload } = useResource<List<Job>>("/jobs");
  return (
    <Page title="Jobs" about="What baton does by itself: the server's worker runs them, or a relay, or run_due_jobs() called by cron.">
      {problem && <Refused problem={problem} retry={reload} />}
      {data ? (
        <Panel flush>
          <Table<Job> caption="jobs" rows={data.items} id={(job) => job.job} tone={(job) => (job.failed_in_a_row ? "bad" : "")}
            columns={[
              { name: "job", sort: (job) => job.job, cell: (job) => <Name of={job.job} mono /> },
              { name: "state", cell: (job) => (!job.enabled ? <Badge>off</Badge> : job.failed_in_a_row ? <State of="error">failed {count(job.failed_in_a_row)} times</State> : <State of="ok" />) },
              { name: "every", number: true, sort: (job) => job.every_seconds, cell: (job) => duration(job.every_seconds) },
              { name: "last run", cell: (job) => <Ago at={job.last_run} /> },
              { name: "took", number: true, cell: (job) => milliseconds(job.last_seconds === null ? null : job.last_seconds * 1000) },
              { name: "due", cell: (job) => <Due at={job.next_due} /> },
              { name: "runs", number: true, cell: (job) => count(job.runs) },
              { name: "error", wide: true, cell: (job) => (job.error ? <span class="error-text">{plain(job.error)}</span> : ""), hideEmpty: (job) => !job.error },
            ]}
            empty={<Empty icon="job" title="There is no job" />} />
        </Panel>
      ) : !problem && <Loading />}
    </Page>
  );
}
