// JSON that keeps every digit. A payload may hold 12345678901234567890 or 1.10; JSON.parse would make other
// numbers of them, and saving an edited payload would write those.

export class Exact {
  constructor(readonly text: string) {}
}

export type Json = null | boolean | number | string | Exact | Json[] | { [name: string]: Json };

// Members whose numbers are somebody else's.
const foreign = new Set(["payload", "headers", "settings", "details", "detail"]);

const escapes: Record<string, string> = { n: "\n", t: "\t", r: "\r", b: "\b", f: "\f", "/": "/", "\\": "\\", '"': '"' };

class Reader {
  private at = 0;
  constructor(private readonly text: string) {}

  whole(exact: boolean): Json {
    const value = this.value(exact);
    this.space();
    if (this.at < this.text.length) this.fail();
    return value;
  }

  private fail(): never {
    const before = this.text.slice(0, this.at);
    const line = before.split("\n").length;
    const found = this.at < this.text.length ? JSON.stringify(this.text[this.at]) : "the end";
    throw new SyntaxError(`line ${line}, column ${this.at - before.lastIndexOf("\n")}: ${found} is not expected here`);
  }

  private space(): void {
    while (this.at < this.text.length && " \t\r\n".includes(this.text[this.at]!)) this.at++;
  }

  private value(exact: boolean): Json {
    this.space();
    switch (this.text[this.at]) {
      case "{":
        return this.object(exact);
      case "[":
        return this.array(exact);
      case '"':
        return this.string();
      case "t":
        return this.word("true", true);
      case "f":
        return this.word("false", false);
      case "n":
        return this.word("null", null);
      default:
        return this.number(exact);
    }
  }

  private word<T>(word: string, value: T): T {
    for (const letter of word) if (this.text[this.at] === letter) this.at++; else this.fail();
    return value;
  }

  private number(exact: boolean): Json {
    const pattern = /-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?/y;
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0];
    if (!found) this.fail();
    this.at += found.length;
    const number = Number(found);
    return exact && String(number) !== found ? new Exact(found) : number;
  }

  private string(): string {
    let value = "";
    let from = ++this.at;
    for (;;) {
      const letter = this.text[this.at];
      if (letter === undefined || letter < " ") this.fail();
      if (letter === '"') break;
      if (letter !== "\\") {
        this.at++;
        continue;
      }
      value += this.text.slice(from, this.at++);
      value += this.escape();
      from = this.at;
    }
    return value + this.text.slice(from, this.at++);
  }

  private escape(): string {
    const letter = this.text[this.at] ?? "";
    if (letter === "u") {
      const digits = this.text.slice(this.at + 1, this.at + 5);
      if (!/^[0-9a-fA-F]{4}$/.test(digits)) this.fail();
      this.at += 5;
      return String.fromCharCode(parseInt(digits, 16));
    }
    const meant = escapes[letter];
    if (meant === undefined) this.fail();
    this.at++;
    return meant;
  }

  private array(exact: boolean): Json[] {
    const items: Json[] = [];
    this.at++;
    this.space();
    if (this.text[this.at] === "]") return this.at++, items;
    for (;;) {
      items.push(this.value(exact));
      this.space();
      const next = this.text[this.at];
      if (next !== "," && next !== "]") this.fail();
      this.at++;
      if (next === "]") return items;
    }
  }

  private object(exact: boolean): Json {
    // Without a prototype: a member may have any name.
    const members: { [name: string]: Json } = Object.create(null);
    this.at++;
    this.space();
    if (this.text[this.at] === "}") return this.at++, members;
    for (;;) {
      this.space();
      if (this.text[this.at] !== '"') this.fail();
      const name = this.string();
      this.space();
      if (this.text[this.at] !== ":") this.fail();
      this.at++;
      members[name] = this.value(exact || foreign.has(name));
      this.space();
      const next = this.text[this.at];
      if (next !== "," && next !== "}") this.fail();
      this.at++;
      if (next === "}") return members;
    }
  }
}

// An answer of the API: baton's own numbers are numbers, those of payloads keep their digits.
export function parseAnswer<T>(text: string): T {
  return new Reader(text).whole(false) as T;
}

// What somebody typed. Throws SyntaxError with line and column.
export function parseExact(text: string): Json {
  return new Reader(text).whole(true);
}

// Letters that would change how the text around them is shown are written as escapes.
function quote(text: string): string {
  return JSON.stringify(text).replace(
    /[\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g,
    (letter) => "\\u" + letter.charCodeAt(0).toString(16).padStart(4, "0"),
  );
}

// The value as text, as people read it.
export function print(value: Json | undefined, indent = ""): string {
  if (value === undefined) return "";
  if (value instanceof Exact) return value.text;
  if (typeof value === "string") return quote(value);
  if (value === null || typeof value !== "object") return String(value);
  const deeper = indent + "  ";
  if (Array.isArray(value)) {
    if (value.length === 0) return "[]";
    return `[\n${value.map((item) => deeper + print(item, deeper)).join(",\n")}\n${indent}]`;
  }
  const names = Object.keys(value);
  if (names.length === 0) return "{}";
  return `{\n${names.map((name) => `${deeper}${quote(name)}: ${print(value[name], deeper)}`).join(",\n")}\n${indent}}`;
}

// The value in one line, cut off where it is long.
export function brief(value: Json | undefined, longest = 120): string {
  const line = print(value).replace(/\n\s*/g, " ");
  return line.length > longest ? line.slice(0, longest) + "…" : line;
}
