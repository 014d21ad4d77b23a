// One dead letter: why it died, what it says, and mending it.

import type { JSX } from "preact";
import { useEffect, useId, useState } from "preact/hooks";
import { change, path, Written } from "../api";
import { count, nameOf, plain, plural } from "../format";
import { parseExact, print, type Json } from "../json";
import { discardLetters, replayLetters } from "../letters";
import { Act, attempt, useMayChange } from "../parts/act";
import { Ago, Empty, Facts, Loading, Moment, Name, Note, Page, Panel, Refused, State } from "../parts/basic";
import { ask } from "../parts/dialog";
import { DiffView } from "../parts/diff_view";
import { Failures } from "../parts/failures";
import { Segments } from "../parts/form";
import { JsonView } from "../parts/json_view";
import { to } from "../places";
import { useResource } from "../resource";
import { navigate } from "../router";
import type { Action, EventWay, Letter, PageOf } from "../types";

const isUuid = (text: string): boolean => /^[0-9a-f-]{36}$/i.test(text);

export function DeadLetterPage({ name }: { name: string }): JSX.Element {
  const { data, problem, reload } = useResource<Letter>(path`/dead-letters/${name}`, 10_000);
  const [editing, setEditing] = useState(false);
  const leave = (): void => navigate(data ? to.letters(data.place) : "/dead-letters");
  const replay = async (): Promise<void> => {
    if (await attempt(() => replayLetters([name]), () => "replayed: it is delivered again")) leave();
  };
  const discard = async (): Promise<void> => {
    const reason = await ask({ title: "Discard this dead letter", yes: "Discard it", danger: true, reason: "Why", body: <p>It is given up for good. The audit trail keeps what it was.</p> });
    if (reason !== null && (await attempt(() => discardLetters([name], reason), () => "discarded"))) leave();
  };
  const actions = data && !editing && (
    <>
      {data.kind !== "outbox" && <Act icon="edit" onClick={() => setEditing(true)}>Edit</Act>}
      <Act icon="replay" tone="primary" onClick={replay}>Replay</Act>
      {data.kind !== "outbox" && <Act icon="trash" tone="danger" onClick={discard}>Discard…</Act>}
    </>
  );
  return (
    <Page title={data?.event_type ?? "Dead letter"} kind={`dead letter ${plain(name)}`} under={{ name: "Dead letters", href: "/dead-letters" }} actions={actions}>
      {problem && (problem.status === 404 ? <Panel><Empty title={plain(problem.message)}>{plain(problem.hint)}</Empty></Panel> : <Refused problem={problem} retry={reload} />)}
      {!data && !problem && <Loading />}
      {data && (
        <>
          <Note tone="bad" icon="dead">
            <strong>Given up after {plural(data.attempts, "attempt")}</strong>, <Ago at={data.died_at} />
            <p class="error-text" data-error>{plain(data.error) || "no error was given"}</p>
          </Note>
          {editing ? <Editor letter={data} close={() => setEditing(false)} replayed={leave} /> : (
            <div class="columns">
              <div class="stack">
                <Panel title="What it says"><JsonView value={data.payload} label="payload" /></Panel>
                <Panel title="Headers"><JsonView value={data.headers} label="headers" /></Panel>
              </div>
              <div class="stack">
                <Panel title="About"><LetterFacts letter={data} /></Panel>
                <Past letter={data} />
              </div>
            </div>
          )}
        </>
      )}
    </Page>
  );
}

function LetterFacts({ letter }: { letter: Letter }): JSX.Element {
  const home = letter.kind === "group" ? to.group(letter.place) : letter.kind === "inbox" ? to.inbox(letter.place) : to.outbox(letter.place);
  return (
    <Facts items={[
      [letter.kind, <Name of={nameOf(letter.place)} href={home} />], ["event", <Name of={letter.event_id} href={isUuid(letter.event_id) ? to.event(letter.event_id) : undefined} mono />],
      ["offset", count(letter.event_offset)], ["key", <Name of={letter.key} mono />], ["aggregate", <Name of={letter.aggregate_id} mono />], ["tenant", <Name of={letter.tenant_id} />],
      ["attempts", count(letter.attempts)], ["died", <Moment at={letter.died_at} />],
    ]} />
  );
}

// What happened to the event elsewhere, and what people did about the letter before.
function Past({ letter }: { letter: Letter }): JSX.Element {
  const way = useResource<EventWay>(letter.kind !== "outbox" && isUuid(letter.event_id) ? path`/events/${letter.event_id}` : null, 10_000);
  const trail = useResource<PageOf<Action>>(path`/audit?object=${letter.place}&limit=200`, 10_000);
  const offset = String(letter.event_offset);
  const mine = (trail.data?.items ?? []).filter((action) => {
    const details = action.details as { [name: string]: Json } | null;
    return details !== null && (String(details.offset) === offset || String(details.event_id) === letter.event_id);
  });
  return (
    <Panel title="What happened so far">
      <ul class="past">
        {letter.failures.length > 0 && <li><Failures of={letter.failures} /></li>}
        <li><State of="dead">given up</State> <Moment at={letter.died_at} /> <span class="error-text">{plain(letter.error)}</span></li>
        {mine.map((action) => (
          <li key={action.cursor}><State of="done">{plain(action.action.replaceAll("_", " "))}</State> <Moment at={action.at} /> <span>by <bdi>{plain(action.acting_for ?? action.actor)}</bdi></span></li>
        ))}
        {way.data?.groups.filter((one) => one.group_name !== letter.place).map((one) => (
          <li key={one.group_name}><State of={one.state} /> in <Name of={one.group_name} href={to.group(one.group_name)} /> {one.error && <span class="error-text">{plain(one.error)}</span>}</li>
        ))}
      </ul>
      {way.data && <a class="button small" href={to.event(letter.event_id)}>The event's whole way</a>}
    </Panel>
  );
}

type Part = "payload" | "headers";

function Editor({ letter, close, replayed }: { letter: Letter; close: () => void; replayed: () => void }): JSX.Element {
  const [part, setPart] = useState<Part>("payload");
  const [before] = useState({ payload: print(letter.payload), headers: print(letter.headers) });
  const [texts, setTexts] = useState(before);
  const may = useMayChange();
  const id = useId();
  const wrong = { payload: "", headers: "" };
  const after = { ...before };
  for (const one of ["payload", "headers"] as const)
    try {
      after[one] = print(parseExact(texts[one]));
    } catch (error) {
      wrong[one] = (error as Error).message;
    }
  const changed = (["payload", "headers"] as const).filter((one) => after[one] !== before[one]);
  const refused = wrong.payload || wrong.headers;
  useEffect(() => document.getElementById(id)?.focus(), []);

  const save = (replayFollows = false): Promise<boolean> =>
    attempt(() => change("PUT", path`/dead-letters/${letter.letter}`, Object.fromEntries(changed.map((one) => [one, new Written(texts[one])])), replayFollows), () => "saved; the audit trail keeps what it was");
  const saveAndReplay = async (): Promise<void> => {
    if (changed.length > 0 && !(await save(true))) return;
    if (await attempt(() => replayLetters([letter.letter]), () => "replayed: it is delivered again")) replayed();
  };
  return (
    <Panel title="Edit" actions={<Segments label="what to edit" value={part} onChange={setPart} options={[["payload", "Payload"], ["headers", "Headers"]]} />}>
      <div class="editor">
        <div class="field">
          <label for={id}>{part === "payload" ? "Payload" : "Headers"}, JSON</label>
          <textarea id={id} class="mono" rows={Math.min(28, Math.max(10, texts[part].split("\n").length + 1))} spellcheck={false} value={texts[part]} readOnly={!may}
            aria-invalid={!!wrong[part]} aria-describedby={`${id}w`} onInput={(event) => setTexts({ ...texts, [part]: event.currentTarget.value })} />
          <p id={`${id}w`} class="bad-text" role="alert">{wrong[part]}</p>
        </div>
        <div class="field">
          <p class="label">What changes</p>
          {refused ? <p class="faint">not JSON yet</p> : changed.length === 0 ? <p class="faint">nothing yet</p> : changed.map((one) => <DiffView key={one} before={before[one]} after={after[one]} />)}
        </div>
      </div>
      <footer class="editor-actions">
        <button type="button" onClick={close}>Cancel</button>
        <Act disabled={!!refused || changed.length === 0} onClick={async () => void ((await save()) && close())}>Save</Act>
        <Act tone="primary" icon="replay" disabled={!!refused} onClick={saveAndReplay}>{changed.length > 0 ? "Save and replay" : "Replay"}</Act>
      </footer>
    </Panel>
  );
}
