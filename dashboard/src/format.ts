// Numbers, times and names as people read them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const one = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const none = "–";

// What a field for a time holds, as the API takes it.
export const asTime = (local: string): string => (local && !Number.isNaN(Date.parse(local)) ? new Date(local).toISOString() : "");

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? none : whole.format(value);
}
export function short(value: number | null | undefined): string {
  if (value === null || value === undefined) return none;
  return Math.abs(value) < 10_000 ? whole.format(value) : compact.format(value);
}
export function rate(value: number | null | undefined): string {
  if (value === null || value === undefined) return none;
  return value > 0 && value < 10 ? one.format(value) : short(value);
}

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return none;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) (value /= 1024), unit++;
  return `${value < 10 && unit > 0 ? one.format(value) : whole.format(value)} ${units[unit]}`;
}

export function milliseconds(value: number | null | undefined): string {
  if (value === null || value === undefined) return none;
  if (value < 10) return `${one.format(value)} ms`;
  return value < 1000 ? `${whole.format(value)} ms` : duration(value / 1000);
}

export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return none;
  if (seconds < 1) return seconds > 0 ? "< 1 s" : "0 s";
  if (seconds < 10) return `${one.format(seconds)} s`;
  if (seconds < 90) return `${whole.format(seconds)} s`;
  if (seconds < 5400) return `${whole.format(seconds / 60)} min`;
  if (seconds < 129_600) return `${one.format(seconds / 3600)} h`;
  return `${whole.format(seconds / 86_400)} days`;
}

export function ago(at: string, now: number): string {
  const seconds = (now - Date.parse(at)) / 1000;
  if (Math.abs(seconds) < 1.5) return "now";
  return seconds > 0 ? `${duration(Math.round(seconds))} ago` : `in ${duration(Math.round(-seconds))}`;
}

const pad = (value: number, digits = 2): string => String(value).padStart(digits, "0");

export function clock(at: string | number, millis = false): string {
  const time = new Date(at);
  const text = `${pad(time.getHours())}:${pad(time.getMinutes())}:${pad(time.getSeconds())}`;
  return millis ? `${text}.${pad(time.getMilliseconds(), 3)}` : text;
}
export function moment(at: string | number, millis = false): string {
  const time = new Date(at);
  return `${time.getFullYear()}-${pad(time.getMonth() + 1)}-${pad(time.getDate())} ${clock(at, millis)}`;
}

export const plural = (number: number, what: string, many = what + "s"): string => `${count(number)} ${number === 1 ? what : many}`;

// Names and messages come from anybody. Letters that turn the text around them are shown as their numbers.
export function plain(text: string | null | undefined): string {
  return (text ?? "").replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g,
    (letter) => `\u27e8${letter.charCodeAt(0).toString(16).padStart(4, "0")}\u27e9`,
  );
}

// A name without the schema that everybody has.
export const nameOf = (relation: string): string => relation.replace(/^public\./, "");
