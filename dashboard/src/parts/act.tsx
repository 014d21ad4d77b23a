// Buttons that change something. Who may only look sees them switched off, and why.

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { Problem, session } from "../api";
import { useStore } from "../store";
import { Icon, type IconName } from "./icons";
import { notify } from "./notices";

export const useMayChange = (): boolean => useStore(session)?.right === "operate";

export function whyNot(): string {
  const who = session.get();
  if (who?.right === "operate") return "";
  return who?.tokens ? "sign in as an operator to do this" : "changing needs a token: start the program with BATON_API_TOKEN set";
}

// Do it, and say what came of it.
export async function attempt<T>(work: () => Promise<T>, said: (done: T) => string): Promise<boolean> {
  try {
    notify(said(await work()));
    return true;
  } catch (error) {
    const problem = error instanceof Problem ? error : new Problem(String(error));
    notify(problem.message, "bad", problem.hint);
    return false;
  }
}

interface ActProps {
  children: ComponentChildren;
  onClick: () => Promise<unknown> | void;
  icon?: IconName;
  tone?: "primary" | "danger" | "";
  small?: boolean;
  disabled?: boolean;
  label?: string;
}

export function Act({ children, onClick, icon, tone = "", small, disabled, label }: ActProps): JSX.Element {
  const may = useMayChange();
  const [busy, setBusy] = useState(false);
  const click = async (): Promise<void> => {
    setBusy(true);
    try {
      await onClick();
    } finally {
      setBusy(false);
    }
  };
  return (
    <button
      type="button"
      class={`${tone} ${small ? "small" : ""}`}
      data-change
      disabled={!may || busy || disabled}
      title={may ? undefined : whyNot()}
      aria-label={label}
      aria-busy={busy || undefined}
      onClick={click}
    >
      {icon && <Icon name={icon} size={14} />}
      {children}
    </button>
  );
}
