// Lines over time. The drawing is a picture with a text beside it; the numbers under the pointer are text, too.

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { clock } from "../format";
import { useTheme } from "../theme";
import type { Values } from "../types";

export interface Line {
  name: string;
  colour: "accent" | "quiet" | "bad" | "second";
  values: Values;
  fill?: boolean;
}
interface ChartProps {
  title: string;
  times: number[];
  lines: Line[];
  format: (value: number | null) => string;
  height?: number;
  span: number; // seconds that the picture shows
}

// Colours as the style sheet has them now.
function colours(element: HTMLElement): Record<string, string> {
  const probe = document.createElement("i");
  element.append(probe);
  const found: Record<string, string> = {};
  for (const name of ["accent", "quiet", "bad", "second", "grid", "faint"]) {
    probe.style.color = `var(--chart-${name})`;
    found[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return found;
}

const faded = (colour: string): string => colour.replace(/^rgb\(([^)]*)\)$/, "rgba($1, 0.13)");

const shortest = 300; // seconds

// What is known fills the picture: a server that began a minute ago does not leave an hour empty.
function spanOf([times, ...lines]: uPlot.AlignedData, span: number): [number, number] {
  const now = Date.now() / 1000;
  let first = 0;
  while (first < times.length && lines.every((values) => values[first] === null || values[first] === undefined)) first++;
  const known = first < times.length ? now - times[first]! + 5 : span;
  return [now - Math.min(span, Math.max(known, shortest)), now];
}

function optionsFor(box: HTMLElement, { lines, format, span }: ChartProps, height: number, onHover: (index: number | null) => void): uPlot.Options {
  const colour = colours(box);
  const axis = { stroke: colour.faint!, grid: { stroke: colour.grid!, width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  return {
    width: box.clientWidth,
    height,
    legend: { show: false },
    padding: [8, 18, 0, 0],
    cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false }, sync: { key: "baton" } },
    scales: {
      x: { time: true, range: (plot) => spanOf(plot.data, span) },
      y: { range: (_, __, high) => [0, high > 0 ? high * 1.12 : 1] },
    },
    axes: [
      { ...axis, size: 26, gap: 4, space: 70, values: (_, splits, __, ___, step) => splits.map((at) => clock(at * 1000).slice(0, step < 60 ? 8 : 5)) },
      { ...axis, size: 56, space: 28, values: (_, splits) => splits.map((value) => format(value)) },
    ],
    series: [
      {},
      ...lines.map(
        (line): uPlot.Series => ({
          label: line.name,
          stroke: colour[line.colour]!,
          width: 1.6,
          ...(line.fill ? { fill: faded(colour[line.colour]!) } : {}),
          points: { show: false },
          spanGaps: false,
        }),
      ),
    ],
    hooks: { setCursor: [(plot) => onHover(plot.cursor.idx ?? null)] },
  };
}

const known = (values: Values): number[] => values.filter((value): value is number => value !== null);
const last = (values: Values): number | null => {
  for (let i = values.length - 1; i >= 0 && i >= values.length - 3; i--) if (values[i] !== null) return values[i]!;
  return null;
};

// What the picture shows, in words.
function inWords({ title, lines, format }: ChartProps): string {
  const parts = lines.map((line) => {
    const values = known(line.values);
    if (values.length === 0) return `${line.name}: nothing is known`;
    return `${line.name}: now ${format(last(line.values))}, lowest ${format(Math.min(...values))}, highest ${format(Math.max(...values))}`;
  });
  return `${title}. ${parts.join("; ")}`;
}

export function Chart(props: ChartProps): JSX.Element {
  const { title, times, lines, format, height = 150 } = props;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [hovered, setHovered] = useState<number | null>(null);
  const theme = useTheme();
  const names = lines.map((line) => line.name).join();
  const data = useMemo((): uPlot.AlignedData => [times, ...lines.map((line) => line.values)] as uPlot.AlignedData, [times, lines]);

  useEffect(() => {
    const element = box.current!;
    const made = new uPlot(optionsFor(element, props, height, setHovered), data, element);
    plot.current = made;
    const watcher = new ResizeObserver(() => element.clientWidth && made.setSize({ width: element.clientWidth, height }));
    watcher.observe(element);
    return () => {
      watcher.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [theme, names, props.span, height]);
  useEffect(() => plot.current?.setData(data), [data]);

  return (
    <figure class="chart">
      <figcaption>
        <span class="chart-title">{title}</span>
        <span class="legend">
          {hovered !== null && times[hovered] !== undefined && <span class="faint">{clock(times[hovered]! * 1000)}</span>}
          {lines.map((line) => (
            <span key={line.name} class={`key ${line.colour}`}>
              {line.name} <b>{format(hovered === null ? last(line.values) : (line.values[hovered] ?? null))}</b>
            </span>
          ))}
        </span>
      </figcaption>
      <div ref={box} class="plot" role="img" aria-label={inWords(props)} />
    </figure>
  );
}

// A line as small as a word.
export function Sparkline({ values, tone = "accent" }: { values: Values; tone?: string }): JSX.Element | null {
  const begin = values.findIndex((value) => value !== null);
  const shown = begin < 0 ? [] : values.slice(Math.max(begin, values.length - 60));
  const numbers = known(shown);
  if (numbers.length < 2) return <svg class="spark" viewBox="0 0 100 24" aria-hidden="true" />;
  const high = Math.max(...numbers) || 1;
  const step = 100 / (shown.length - 1);
  let pen = "M";
  let drawing = "";
  shown.forEach((value, i) => {
    if (value === null) pen = "M";
    else {
      drawing += `${pen}${(i * step).toFixed(1)} ${(22 - (value / high) * 20).toFixed(1)}`;
      pen = "L";
    }
  });
  return (
    <svg class={`spark ${tone}`} viewBox="0 0 100 24" preserveAspectRatio="none" aria-hidden="true">
      <path d={drawing} fill="none" vector-effect="non-scaling-stroke" />
    </svg>
  );
}
