// Short messages about what has just happened; also read out.

import type { JSX } from "preact";
import { plain } from "../format";
import { Store, useStore } from "../store";

interface Notice {
  id: number;
  text: string;
  tone: "good" | "bad" | "quiet";
  hint: string;
}

const notices = new Store<Notice[]>([]);
let lastId = 0;

export function notify(text: string, tone: Notice["tone"] = "good", hint = ""): void {
  const id = ++lastId;
  notices.set([...notices.get().slice(-3), { id, text, tone, hint }]);
  setTimeout(() => dismiss(id), tone === "bad" ? 12_000 : 4000);
}

function dismiss(id: number): void {
  notices.set(notices.get().filter((notice) => notice.id !== id));
}

export function Notices(): JSX.Element {
  const all = useStore(notices);
  return (
    <div class="notices" role="status" aria-live="polite">
      {all.map((notice) => (
        <div key={notice.id} class={`notice ${notice.tone}`}>
          <div>
            <strong>{plain(notice.text)}</strong>
            {notice.hint && <p>{plain(notice.hint)}</p>}
          </div>
          <button type="button" class="ghost small" aria-label="dismiss" onClick={() => dismiss(notice.id)}>×</button>
        </div>
      ))}
    </div>
  );
}
