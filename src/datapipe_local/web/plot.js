// Plots of runs over time, as SVG. The table of runs contains the same values.

import { h } from "./dom.js";
import { duration, moment, number, tick, tone, word } from "./format.js";

const HEIGHT = 150;
// As in the style sheet: gap between plots, and padding.
const GAP = 16;
const FRAME = 34;
const EDGE = { left: 72, right: 14, top: 12, bottom: 24 };

// points: {at, value, status, id}. Return a figure with one plot.
export function plot({ title, points, width, say, kind, steps: stepsTo = ticks, mark: label = say }) {
  const known = points.filter((point) => point.value !== null && point.value !== undefined).sort((a, b) => a.at - b.at);
  if (!known.length) return null;
  const times = known.map((point) => point.at);
  const [from, to] = [times[0], times.at(-1)];
  const span = to - from;
  const steps = stepsTo(Math.max(...known.map((point) => point.value)));
  const top = steps.at(-1);
  const inner = Math.max(60, width - EDGE.left - EDGE.right);
  const x = (at) => EDGE.left + 8 + (span ? (at - from) / span : 0.5) * (inner - 16);
  const y = (value) => HEIGHT - EDGE.bottom - (value / top) * (HEIGHT - EDGE.top - EDGE.bottom);
  const id = `plot-${kind}`;
  return h(
    "figure", { class: `plot ${kind}`, key: id },
    h("figcaption", { id }, title),
    h(
      "svg",
      { role: "img", "aria-label": summary(title, known, say), width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}` },
      steps.map((value) => h(
        "g", { class: "step" },
        h("line", { x1: EDGE.left, x2: width - EDGE.right, y1: y(value), y2: y(value) }),
        h("text", { x: EDGE.left - 8, y: y(value) + 4, "text-anchor": "end" }, label(value)),
      )),
      marks(from, span, inner).map((time, index, all) => h(
        "text",
        { class: "time", x: x(time), y: HEIGHT - 6, "text-anchor": anchor(index, all.length) },
        tick(time, span),
      )),
      kind === "rows"
        ? known.map((point) => h("line", { class: `stem ${tone(point.status)}`, x1: x(point.at), x2: x(point.at), y1: y(0), y2: y(point.value) }))
        : h("polyline", { class: "line", points: known.map((point) => `${x(point.at).toFixed(1)},${y(point.value).toFixed(1)}`).join(" ") }),
      known.map((point) => mark(point, x(point.at), y(point.value), say)),
    ),
  );
}

// Failures have another shape, not only another color.
function mark(point, x, y, say) {
  const isBad = tone(point.status) === "bad";
  return h(
    "g", { class: `point ${isBad ? "bad" : "good"}`, key: point.id, "data-run": point.id },
    h("title", null, `${moment(point.at)}: ${say(point.value)}, ${word(point.status)}`),
    h("circle", { class: "target", cx: x, cy: y, r: 10 }),
    isBad
      ? h("path", { d: `M${x - 4} ${y - 4}l8 8m0 -8l-8 8` })
      : h("circle", { cx: x, cy: y, r: 3.5 }),
  );
}

function summary(title, points, say) {
  const values = points.map((point) => point.value);
  const failed = points.filter((point) => tone(point.status) === "bad").length;
  return `${title}: ${number(points.length)} runs, ${moment(points[0].at)} to ${moment(points.at(-1).at)}, `
    + `from ${say(Math.min(...values))} to ${say(Math.max(...values))}, the last ${say(values.at(-1))}`
    + (failed ? `; ${number(failed)} failed.` : ".");
}

// Round values from zero to just above the maximum.
export function ticks(greatest) {
  if (!(greatest > 0)) return [0, 1];
  const rough = greatest / 3;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
  return Array.from({ length: Math.ceil(greatest / step - 1e-9) + 1 }, (_, index) => index * step);
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400];

// The same for seconds: larger values are in minutes and hours.
export function secondTicks(greatest) {
  const rough = greatest / 3;
  const step = rough > 1 ? STEPS.find((one) => one >= rough) : null;
  if (!step) return ticks(greatest);
  return Array.from({ length: Math.ceil(greatest / step - 1e-9) + 1 }, (_, index) => index * step);
}

// Without zero parts: 2 min, not 2 min 0 s.
function shortDuration(value) {
  return duration(value).replace(/ 0 (s|min)$/, "");
}

function marks(from, span, inner) {
  if (!span) return [from];
  const count = Math.max(2, Math.min(5, Math.floor(inner / 130)));
  return Array.from({ length: count }, (_, index) => from + (span * index) / (count - 1));
}

function anchor(index, count) {
  if (count === 1) return "middle";
  return index === 0 ? "start" : index === count - 1 ? "end" : "middle";
}

// Rows and durations of finished runs, side by side if there is space.
export function plots(runs, { width, rows, seconds }) {
  const points = (value) => runs.filter((run) => run.started_at).map((run) => ({
    id: run.id, at: new Date(run.started_at).getTime(), value: value(run), status: run.status || "",
  }));
  const wanted = [
    rows ? { title: rows.title, kind: "rows", points: points(rows.of), say: compact } : null,
    { title: "Duration", kind: "durations", points: points(seconds), say: duration, steps: secondTicks, mark: shortDuration },
  ].filter((one) => one && one.points.some((point) => point.value !== null && point.value !== undefined));
  if (!wanted.length) return null;
  const beside = width >= 700 ? wanted.length : 1;
  const each = Math.max(200, Math.floor((width - (beside - 1) * GAP) / beside) - FRAME);
  return h("div", { class: "plots" }, wanted.map((one) => plot({ ...one, width: each })));
}

const COMPACT = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });

function compact(value) {
  return value < 10_000 ? number(value) : COMPACT.format(value);
}
