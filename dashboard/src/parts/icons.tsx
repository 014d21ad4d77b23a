// Icons are drawn here: no font, no picture to load. They say nothing to a screen reader; the text beside does.

import type { JSX } from "preact";

const drawings = {
  overview: "M3 12h4l3-8 4 16 3-8h4",
  outbox: "M4 14v5h16v-5M12 15V4M8 8l4-4 4 4",
  inbox: "M4 14v5h16v-5M12 4v11M8 11l4 4 4-4",
  group: "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7ZM2.5 20a6.5 6.5 0 0 1 13 0M16 4.5a3.5 3.5 0 0 1 0 6.5M18 14a6.5 6.5 0 0 1 3.5 6",
  pipeline: "M3 6h7a4 4 0 0 1 4 4v4a4 4 0 0 0 4 4h3M18 15l3 3-3 3M3 3v6",
  stream: "M3 8c3-3 6-3 9 0s6 3 9 0M3 16c3-3 6-3 9 0s6 3 9 0",
  event: "M6 3h9l4 4v14H6zM9 12h7M9 16h7",
  dead: "M12 3 2 20h20zM12 10v4M12 17v.5",
  block: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18ZM5.7 5.7l12.6 12.6",
  lease: "M14 4a6 6 0 1 1-4.2 10.2L4 20v-0M4 20h4v-3M15.5 8.5v.5",
  storage: "M4 6c0-1.7 3.6-3 8-3s8 1.3 8 3-3.6 3-8 3-8-1.3-8-3ZM4 6v12c0 1.7 3.6 3 8 3s8-1.3 8-3V6M4 12c0 1.7 3.6 3 8 3s8-1.3 8-3",
  job: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18ZM12 7v5l3 3",
  audit: "M5 4h14v16H5zM9 8h6M9 12h6M9 16h3",
  settings: "M4 7h10M18 7h2M4 17h2M10 17h10M16 5v4M8 15v4",
  alert: "M6 16V11a6 6 0 0 1 12 0v5l2 2H4zM10 21h4",
  doctor: "M12 21C5 16 3 12 3 8.5A4.5 4.5 0 0 1 12 7a4.5 4.5 0 0 1 9 1.5C21 12 19 16 12 21ZM6 12h3l2-3 2 5 2-2h3",
  menu: "M4 6h16M4 12h16M4 18h16",
  close: "M5 5l14 14M19 5 5 19",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14ZM16.2 16.2 21 21",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  check: "M4 12.5 9.5 18 20 6.5",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8ZM12 2v2.5M12 19.5V22M2 12h2.5M19.5 12H22M5 5l1.8 1.8M17.2 17.2 19 19M5 19l1.8-1.8M17.2 6.8 19 5",
  moon: "M20 14.5A8.5 8.5 0 0 1 9.5 4 8.5 8.5 0 1 0 20 14.5Z",
  auto: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18ZM12 3v18",
  user: "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8ZM4.5 20.5a7.5 7.5 0 0 1 15 0",
  replay: "M4 4v6h6M4.6 10A8 8 0 1 1 4 14",
  trash: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13",
  edit: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  plus: "M12 5v14M5 12h14",
  arrow: "M5 12h14M13 6l6 6-6 6",
} as const;

export type IconName = keyof typeof drawings;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 24 24" width={size} height={size} fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true" focusable="false">
      <path d={drawings[name]} />
    </svg>
  );
}
