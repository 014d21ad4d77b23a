// Tables. On a phone every row becomes a card, and every cell says which column it is of.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

export interface Column<T> {
  name: string;
  cell: (row: T) => ComponentChildren;
  number?: boolean;
  sort?: (row: T) => string | number | null | undefined;
  wide?: boolean; // takes what is left, and wraps
  hideEmpty?: (row: T) => boolean; // leaves the cell out of a card
}

export interface Selection {
  chosen: ReadonlySet<string>;
  choose: (keys: Set<string>) => void;
  disabled?: boolean;
}

interface TableProps<T> {
  caption: string;
  columns: Column<T>[];
  rows: T[];
  id: (row: T) => string;
  selection?: Selection;
  tone?: (row: T) => string;
  empty?: ComponentChildren;
}

interface Order {
  column: number;
  down: boolean;
}

function sorted<T>(rows: T[], columns: Column<T>[], order: Order | null): T[] {
  const key = order && columns[order.column]?.sort;
  if (!key) return rows;
  const sign = order.down ? -1 : 1;
  return [...rows].sort((a, b) => {
    const left = key(a) ?? "";
    const right = key(b) ?? "";
    return sign * (typeof left === "number" && typeof right === "number" ? left - right : String(left).localeCompare(String(right)));
  });
}

export function Table<T>({ caption, columns, rows, id, selection, tone, empty }: TableProps<T>): JSX.Element {
  const [order, setOrder] = useState<Order | null>(null);
  if (rows.length === 0 && empty) return <>{empty}</>;
  const sortBy = (column: number): void =>
    setOrder(order?.column === column ? { column, down: !order.down } : { column, down: !!columns[column]!.number });
  return (
    <div class="table" tabIndex={0} role="region" aria-label={caption}>
      <table role="table">
        <caption class="hidden">{caption}</caption>
        <thead role="rowgroup">
          <tr role="row">
            {selection && <th role="columnheader" scope="col" class="check"><ChooseAll keys={rows.map(id)} selection={selection} /></th>}
            {columns.map((column, i) => (
              <th
                key={column.name}
                role="columnheader"
                scope="col"
                class={column.number ? "number" : ""}
                aria-sort={order?.column === i ? (order.down ? "descending" : "ascending") : undefined}
              >
                {column.sort ? (
                  <button type="button" class="sort" onClick={() => sortBy(i)}>
                    {column.name}
                    <span aria-hidden="true">{order?.column === i ? (order.down ? "↓" : "↑") : ""}</span>
                  </button>
                ) : (
                  column.name || <span class="hidden">actions</span>
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {sorted(rows, columns, order).map((row) => (
            <tr key={id(row)} role="row" class={tone?.(row) ?? ""}>
              {selection && <td role="cell" class="check"><Choose row={id(row)} selection={selection} /></td>}
              {columns.map((column, i) => {
                const Cell = i === 0 ? "th" : "td";
                return (
                  <Cell
                    key={column.name}
                    role={i === 0 ? "rowheader" : "cell"}
                    scope={i === 0 ? "row" : undefined}
                    data-name={column.name}
                    class={`${column.number ? "number" : ""} ${column.wide ? "wide" : ""} ${column.hideEmpty?.(row) ? "void" : ""}`}
                  >
                    <div class="cell">{column.cell(row)}</div>
                  </Cell>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Choose({ row, selection }: { row: string; selection: Selection }): JSX.Element {
  const { chosen, choose, disabled } = selection;
  return (
    <input
      type="checkbox"
      aria-label={`select ${row}`}
      checked={chosen.has(row)}
      disabled={disabled}
      onChange={(event) => {
        const next = new Set(chosen);
        if (event.currentTarget.checked) next.add(row);
        else next.delete(row);
        choose(next);
      }}
    />
  );
}

function ChooseAll({ keys, selection }: { keys: string[]; selection: Selection }): JSX.Element {
  const box = useRef<HTMLInputElement>(null);
  const here = keys.filter((key) => selection.chosen.has(key)).length;
  useEffect(() => {
    box.current!.indeterminate = here > 0 && here < keys.length;
  }, [here, keys.length]);
  return (
    <input
      ref={box}
      type="checkbox"
      aria-label="select all that are shown"
      checked={keys.length > 0 && here === keys.length}
      disabled={selection.disabled}
      onChange={(event) => selection.choose(event.currentTarget.checked ? new Set([...selection.chosen, ...keys]) : new Set())}
    />
  );
}
