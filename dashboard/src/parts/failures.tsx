// The latest failed attempts at an event or a message.

import type { JSX } from "preact";
import { count, plain } from "../format";
import type { FailedAttempt } from "../types";
import { Badge, Moment } from "./basic";

export function Failures({ of }: { of: FailedAttempt[] }): JSX.Element {
  return (
    <ul class="past" aria-label="failed attempts">
      {of.map((one) => (
        <li key={`${one.at} ${one.attempt}`} data-failure>
          <Badge tone="warn">attempt {count(one.attempt)}</Badge> <Moment at={one.at} /> <span class="error-text">{plain(one.error) || "no error was given"}</span>
        </li>
      ))}
    </ul>
  );
}
