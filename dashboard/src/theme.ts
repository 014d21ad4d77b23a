// Light, dark, or as the system has it.

import { useEffect, useState } from "preact/hooks";
import { Store, useStore } from "./store";

export type Theme = "auto" | "light" | "dark";
const next: Record<Theme, Theme> = { auto: "light", light: "dark", dark: "auto" };

// Private windows may refuse to keep anything.
function stored(): Theme {
  try {
    const kept = localStorage.getItem("baton-theme");
    return kept === "light" || kept === "dark" ? kept : "auto";
  } catch {
    return "auto";
  }
}

export const theme = new Store<Theme>(stored());

function apply(chosen: Theme): void {
  if (chosen === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
}
apply(theme.get());

export function switchTheme(): Theme {
  const chosen = next[theme.get()];
  apply(chosen);
  theme.set(chosen);
  try {
    localStorage.setItem("baton-theme", chosen);
  } catch {
    // it holds for this page at least
  }
  return chosen;
}

const systemDark = matchMedia("(prefers-color-scheme: dark)");

// The theme that is seen; what is drawn has to be drawn anew when it changes.
export function useTheme(): "light" | "dark" {
  const chosen = useStore(theme);
  const [dark, setDark] = useState(systemDark.matches);
  useEffect(() => {
    const follow = (): void => setDark(systemDark.matches);
    systemDark.addEventListener("change", follow);
    return () => systemDark.removeEventListener("change", follow);
  }, []);
  return chosen === "auto" ? (dark ? "dark" : "light") : chosen;
}
