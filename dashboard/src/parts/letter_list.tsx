// A list of dead letters: choose some or all, replay or discard them.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { count, nameOf, plain, plural } from "../format";
import { discardLetters, isOfAdoptedTable, replayLetters, visitLetters, type LetterFilter, type Visited } from "../letters";
import { usePages } from "../pages_of";
import { to } from "../places";
import type { Letter } from "../types";
import { Act, attempt, useMayChange } from "./act";
import { Ago, Badge, Empty, Loading, Name, Panel, Refused } from "./basic";
import { ask } from "./dialog";
import { More } from "./more";
import { Table } from "./table";

const homeOf = (letter: Letter): string => (letter.kind === "group" ? to.group(letter.place) : letter.kind === "inbox" ? to.inbox(letter.place) : to.outbox(letter.place));

interface LetterListProps {
  filter: LetterFilter;
  title?: string;
}

export function LetterList({ filter, title }: LetterListProps): JSX.Element {
  const pages = usePages<Letter>("/dead-letters", { ...filter });
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const may = useMayChange();
  // What is not there any more cannot be chosen any more.
  useEffect(() => {
    const there = new Set(pages.items.map((letter) => letter.letter));
    if ([...chosen].some((letter) => !there.has(letter))) setChosen(new Set([...chosen].filter((letter) => there.has(letter))));
  }, [pages.items]);
  return (
    <Panel title={title} flush actions={pages.items.length > 0 && <AllActions filter={filter} />}>
      {pages.problem && <Refused problem={pages.problem} retry={pages.reload} />}
      {chosen.size > 0 && <ChosenBar letters={[...chosen]} clear={() => setChosen(new Set())} />}
      {pages.loading ? <Loading /> : (
        <Table<Letter>
          caption="dead letters"
          rows={pages.items}
          id={(letter) => letter.letter}
          selection={{ chosen, choose: setChosen, disabled: !may }}
          columns={[
            { name: "letter", cell: (letter) => <Name of={letter.letter} href={to.letter(letter.letter)} mono /> },
            { name: "type", cell: (letter) => <Name of={letter.event_type} href={to.letter(letter.letter)} /> },
            { name: "of", cell: (letter) => <><Name of={nameOf(letter.place)} href={homeOf(letter)} /> <Badge>{letter.kind}</Badge></> },
            { name: "key", cell: (letter) => <Name of={letter.key} mono />, hideEmpty: (letter) => !letter.key },
            { name: "tried", number: true, cell: (letter) => count(letter.attempts) },
            { name: "died", cell: (letter) => <Ago at={letter.died_at} /> },
            { name: "error", wide: true, cell: (letter) => <span class="error-text clamp">{plain(letter.error)}</span> },
          ]}
          empty={<Empty title="No dead letters">Nothing was given up{Object.values(filter).some((word) => word) ? " that fits" : ""}.</Empty>}
        />
      )}
      <More pages={pages} what="dead letter" />
    </Panel>
  );
}

const afterReplay = <p>Each is delivered again, with all of its attempts, in its place among the events of its key.</p>;
const afterDiscard = <p>They are given up for good. The audit trail keeps what they were.</p>;

const notAdopted = <p>Those of adopted tables stay: their rows belong to an application, which settles them itself.</p>;
const told = (what: string, { done, left }: Visited): string => `${plural(done, "dead letter")} ${what}${left > 0 ? `; ${count(left)} of adopted tables left to their application` : ""}`;

function ChosenBar({ letters, clear }: { letters: string[]; clear: () => void }): JSX.Element {
  const what = plural(letters.length, "dead letter");
  const replay = async (): Promise<void> => {
    if (letters.length > 1 && (await ask({ title: `Replay ${what}`, yes: `Replay ${what}`, body: afterReplay })) === null) return;
    if (await attempt(() => replayLetters(letters, "passed over"), (done) => `${plural(done, "dead letter")} replayed`)) clear();
  };
  const ours = letters.filter((letter) => !isOfAdoptedTable(letter));
  const discard = async (): Promise<void> => {
    const these = plural(ours.length, "dead letter");
    const reason = await ask({ title: `Discard ${these}`, yes: `Discard ${these}`, danger: true, reason: "Why", body: <>{afterDiscard}{ours.length < letters.length && notAdopted}</> });
    if (reason !== null && (await attempt(() => discardLetters(ours, reason, "passed over"), (done) => told("discarded", { done, left: letters.length - ours.length })))) clear();
  };
  return (
    <div class="chosen" role="group" aria-label="what is selected">
      <strong>{count(letters.length)} selected</strong>
      <Act small icon="replay" tone="primary" onClick={replay}>Replay</Act>
      <Act small icon="trash" tone="danger" disabled={ours.length === 0} onClick={discard}>Discard…</Act>
      <button type="button" class="ghost small" onClick={clear}>Clear</button>
    </div>
  );
}

// All that fit the filter, also those that are not shown.
function AllActions({ filter }: { filter: LetterFilter }): JSX.Element {
  const [progress, setProgress] = useState("");
  const run = async (verb: "Replay" | "Discard"): Promise<void> => {
    const question = verb === "Replay"
      ? { title: "Replay all that fit", yes: "Replay all", body: <><p>All dead letters that fit the filter, also those that are not shown.</p>{afterReplay}</> }
      : { title: "Discard all that fit", yes: "Discard all", danger: true, reason: "Why", body: <><p>All dead letters that fit the filter, also those that are not shown.</p>{afterDiscard}{notAdopted}</> };
    const reason = await ask(question);
    if (reason === null) return;
    await attempt(
      () => visitLetters(filter, (letter) => verb === "Replay" || !isOfAdoptedTable(letter), (letters) => (verb === "Replay" ? replayLetters(letters, "passed over") : discardLetters(letters, reason, "passed over")), (done) => setProgress(`${count(done)} so far…`)),
      (visited) => told(verb === "Replay" ? "replayed" : "discarded", visited),
    );
    setProgress("");
  };
  return (
    <>
      {progress && <span class="faint" role="status">{progress}</span>}
      <Act small icon="replay" onClick={() => run("Replay")}>Replay all…</Act>
      <Act small icon="trash" onClick={() => run("Discard")}>Discard all…</Act>
    </>
  );
}
