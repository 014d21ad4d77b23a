// Dialogs. The browser's own <dialog> keeps the focus inside and gives it back afterwards.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { Store, useStore } from "../store";

interface DialogProps {
  title: string;
  onClose: () => void;
  wide?: boolean;
  children: ComponentChildren;
}

export function Dialog({ title, onClose, wide, children }: DialogProps): JSX.Element {
  const box = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = box.current!;
    const before = document.activeElement as HTMLElement | null;
    dialog.showModal();
    return () => {
      dialog.close();
      if (before?.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={box}
      class={wide ? "wide" : ""}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => event.target === box.current && onClose()}
    >
      <div class="dialog">
        <header>
          <h2 id={id}>{title}</h2>
          <button type="button" class="ghost small" aria-label="close" onClick={onClose}>×</button>
        </header>
        {children}
      </div>
    </dialog>
  );
}

export interface Question {
  title: string;
  body: ComponentChildren;
  yes: string; // what the button does, in its own words
  danger?: boolean;
  reason?: string; // label of a text that must be given
}

interface Asked extends Question {
  answer: (given: string | null) => void;
}

const asked = new Store<Asked | null>(null);

// Ask before a change. The answer is the reason, "" where none is asked for, or null: do not.
export function ask(question: Question): Promise<string | null> {
  return new Promise((resolve) =>
    asked.set({
      ...question,
      answer: (given) => {
        asked.set(null);
        resolve(given);
      },
    }),
  );
}

export function Questions(): JSX.Element | null {
  const question = useStore(asked);
  return question && <QuestionDialog key={question.title} question={question} />;
}

function QuestionDialog({ question }: { question: Asked }): JSX.Element {
  const [reason, setReason] = useState("");
  const id = useId();
  return (
    <Dialog title={question.title} onClose={() => question.answer(null)}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (!question.reason || reason.trim()) question.answer(reason.trim());
        }}
      >
        <div class="dialog-body">
          {question.body}
          {question.reason && (
            <div class="field">
              <label for={id}>{question.reason}</label>
              <input id={id} value={reason} required autoFocus onInput={(event) => setReason(event.currentTarget.value)} />
            </div>
          )}
        </div>
        <footer>
          <button type="button" onClick={() => question.answer(null)}>Cancel</button>
          <button type="submit" class={question.danger ? "danger" : "primary"} autoFocus={!question.reason} disabled={!!question.reason && !reason.trim()}>
            {question.yes}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
