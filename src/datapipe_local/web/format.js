// Formats of values.

const NUMBER = new Intl.NumberFormat();
const MOMENT = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit",
});
const DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const TIME = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const SECOND = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const ZONE = MOMENT.resolvedOptions().timeZone;

export function number(value) {
  return typeof value === "number" ? NUMBER.format(value) : "–";
}

export function plural(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

export function moment(text) {
  const time = new Date(text);
  return Number.isNaN(time.getTime()) ? String(text) : MOMENT.format(time);
}

// The same time, in the format of the service.
export function utc(text) {
  const time = new Date(text);
  return Number.isNaN(time.getTime()) ? "" : time.toISOString().replace("T", " ").replace("Z", " UTC");
}

// Tick marks of a time axis that spans this number of milliseconds.
export function tick(time, span) {
  if (span > 2 * 86_400_000) return DAY.format(time);
  return (span > 10 * 60_000 ? TIME : SECOND).format(time);
}

export function duration(seconds) {
  if (typeof seconds !== "number" || Number.isNaN(seconds)) return "–";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

// Duration of a finished run.
export function seconds(run) {
  if (!run.started_at || !run.finished_at) return null;
  const took = (new Date(run.finished_at) - new Date(run.started_at)) / 1000;
  return Number.isNaN(took) ? null : Math.max(0, took);
}

const TONES = {
  COMPLETED: "good", CHUNK_COMPLETED: "good", PUBLISHED: "good", ENABLED: "good", DONE: "good",
  FAILED: "bad",
  RUNNING: "going", RETRYING: "going",
  SCHEDULED: "waiting", DELAYED: "waiting", NOT_STARTED: "waiting",
};

// Kind of a status: good, bad, going, waiting, or quiet.
export function tone(status) {
  return TONES[String(status).toUpperCase()] || "quiet";
}

export function isGoing(status) {
  return ["going", "waiting"].includes(tone(status));
}

export function word(status) {
  const text = String(status).replaceAll("_", " ").toLowerCase();
  return text.charAt(0).toUpperCase() + text.slice(1);
}
