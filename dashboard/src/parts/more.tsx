import type { JSX } from "preact";
import { plural } from "../format";
import type { Pages } from "../pages_of";

export function More<T>({ pages, what = "line" }: { pages: Pages<T>; what?: string }): JSX.Element | null {
  if (pages.items.length === 0) return null;
  return (
    <div class="more">
      <span class="faint">{plural(pages.items.length, what)}{pages.more ? ", and there are more" : ""}</span>
      {pages.more && <button type="button" class="small" onClick={pages.more}>Show more</button>}
    </div>
  );
}
