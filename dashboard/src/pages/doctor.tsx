import type { JSX } from "preact";
import { plural } from "../format";
import { Facts, Loading, Page, Panel, Refused, State } from "../parts/basic";
import { databaseFindings, Findings } from "../parts/findings";
import { useResource } from "../resource";
import type { Doctor, Server } from "../types";

const formOf = (server: Server): string => (server.form === "sql" ? "plain SQL" : server.preloaded ? "extension, preloaded" : "extension, not preloaded");

export function DoctorPage(): JSX.Element {
  const { data, problem, loading, reload } = useResource<Doctor>("/doctor", 30_000);
  const errors = data?.findings.filter((finding) => finding.severity === "error").length ?? 0;
  return (
    <Page title="Doctor" about="Everything that may be wrong, each with what mends it." actions={<button type="button" onClick={reload}>Look again</button>}>
      {problem && <Refused problem={problem} retry={reload} />}
      {loading && <Loading />}
      {data && (
        <>
          <Panel title={data.findings.length === 0 ? "Healthy" : `${plural(errors, "error")}, ${plural(data.findings.length - errors, "warning")}`} flush><Findings findings={databaseFindings(data.findings)} quiet="Nothing was found" /></Panel>
          <Panel title="What was looked at">
            <ul class="checks">
              {data.checks.map((check) => (
                <li key={check.check}><State of={check.findings.length === 0 ? "ok" : check.findings.some((one) => one.severity === "error") ? "error" : "warning"} /> {check.check}</li>
              ))}
            </ul>
          </Panel>
          <Panel title="Server">
            <Facts items={[
              ["PostgreSQL", data.server.postgresql], ["database", data.server.database], ["as", data.server.user], ["baton in it", `${data.server.installed} (${formOf(data.server)})`], ["this program", data.server.program],
              ["wakes readers by", data.server.wake_up], ["standby", data.server.standby ? "yes" : "no"],
            ]} />
          </Panel>
        </>
      )}
    </Page>
  );
}
