// The settings of a pipeline of the catalog: changed, with what changes beside them, or written for a new one. The server checks them as a relay would.

import type { ComponentChildren, JSX } from "preact";
import { useId, useMemo, useState } from "preact/hooks";
import { change, path, Problem, Written } from "../api";
import { nameOf, plain } from "../format";
import { parseExact, print } from "../json";
import { to } from "../places";
import { useResource } from "../resource";
import { navigate } from "../router";
import type { List, Outbox, Pipeline } from "../types";
import { Note } from "./basic";
import { Dialog } from "./dialog";
import { DiffView } from "./diff_view";
import { Choice } from "./form";
import { notify } from "./notices";

// Why the server does not take the settings: everything that is wrong with them.
function Refusal({ problem }: { problem: Problem }): JSX.Element {
  const all = problem.problems.length > 0 ? problem.problems : [{ setting: null, what: problem.message, hint: problem.hint }];
  return (
    <Note tone="bad" icon="dead">
      <div role="alert">
        <ul class="refusal">{all.map((one, i) => <li key={i}><strong>{plain(one.what)}</strong>{one.hint && <span class="faint"> {plain(one.hint)}</span>}</li>)}</ul>
      </div>
    </Note>
  );
}

interface EditorProps {
  title: string;
  name: string;
  text: string;
  onText: (text: string) => void;
  before?: string; // what is in force: only what differs is worth saving
  yes: string;
  body: Record<string, unknown>;
  onSaved: () => void;
  close: () => void;
  children?: ComponentChildren;
}

function Editor({ title, name, text, onText, before, yes, body, onSaved, close, children }: EditorProps): JSX.Element {
  const [refused, setRefused] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const id = useId();
  let wrong = "";
  let after = "";
  try {
    after = print(parseExact(text));
  } catch (error) {
    wrong = (error as Error).message;
  }
  const save = async (event: globalThis.Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    try {
      await change("PUT", path`/pipelines/${name}`, { settings: new Written(text), ...body });
      onSaved();
    } catch (error) {
      setRefused(error instanceof Problem ? error : new Problem(String(error)));
    } finally {
      setBusy(false);
    }
  };
  const write = (typed: string): void => {
    setRefused(null);
    onText(typed);
  };
  return (
    <Dialog title={title} onClose={close} wide>
      <form onSubmit={save}>
        <div class="dialog-body">
          {children}
          <div class="field"><label for={id}>Settings, as in a relay's file</label>
            <textarea id={id} class="mono" rows={14} spellcheck={false} value={text} aria-invalid={!!wrong || !!refused} onInput={(event) => write(event.currentTarget.value)} />
            <p class="bad-text" role="alert">{wrong}</p></div>
          {refused && <Refusal problem={refused} />}
          {before !== undefined && !wrong && <DiffView before={before} after={after} />}
        </div>
        <footer><button type="button" onClick={close}>Cancel</button><button type="submit" class="primary" disabled={!name || busy || !!wrong || after === before}>{yes}</button></footer>
      </form>
    </Dialog>
  );
}

export function SettingsDialog({ pipeline, close }: { pipeline: Pipeline; close: () => void }): JSX.Element {
  const before = useMemo(() => print(pipeline.settings), []);
  const [text, setText] = useState(before);
  const saved = (): void => {
    notify("saved: relays take it over now");
    close();
  };
  return <Editor title={`Settings of ${plain(pipeline.pipeline)}`} name={pipeline.pipeline} text={text} onText={setText} before={before} yes="Save" body={{}} onSaved={saved} close={close} />;
}

const firstSettings = (outbox: string): string =>
  JSON.stringify({ source: { outbox }, sink: { type: "kafka", brokers: "localhost:9092", topic: nameOf(outbox) } }, null, 2);

export function NewPipelineDialog({ known, close }: { known: string[]; close: () => void }): JSX.Element {
  const outboxes = useResource<List<Outbox>>("/outboxes", 0).data?.items ?? [];
  const [name, setName] = useState("");
  const [outbox, setOutbox] = useState("");
  const [written, setWritten] = useState<string | null>(null);
  const [enabled, setEnabled] = useState(true);
  const id = useId();
  const source = outbox || outboxes[0]?.outbox || "orders";
  const taken = known.includes(name.trim());
  const saved = (): void => {
    notify(enabled ? `${name.trim()} was made: relays take it over now` : `${name.trim()} was made`);
    close();
    navigate(to.pipeline(name.trim()));
  };
  return (
    <Editor title="A new pipeline" name={taken ? "" : name.trim()} text={written ?? firstSettings(source)} onText={setWritten} yes="Make the pipeline" body={{ enabled }} onSaved={saved} close={close}>
      <div class="field"><label for={id}>Name</label>
        <input id={id} value={name} required autoFocus autocomplete="off" spellcheck={false} placeholder={`${nameOf(source)}-to-kafka`} aria-invalid={taken} onInput={(event) => setName(event.currentTarget.value)} />
        <p class={taken ? "bad-text" : "faint"} role="alert">{taken ? "there is a pipeline of this name" : "The group that keeps its place gets this name, too."}</p></div>
      {outboxes.length > 1 && <Choice label="Reads" value={source} onChange={(chosen) => { setOutbox(chosen); setWritten(null); }} options={outboxes.map((one) => [one.outbox, nameOf(one.outbox)])} />}
      <label class="choice"><input type="checkbox" checked={enabled} onChange={(event) => setEnabled(event.currentTarget.checked)} /> Relays run it at once</label>
      <p class="faint">Secrets are never stored: write {"${env:NAME}"} or {"${file:/path}"}, and the relay looks them up where it runs.</p>
    </Editor>
  );
}
