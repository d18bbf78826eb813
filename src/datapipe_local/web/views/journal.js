// The journal of the control plane: every run and every request, the newest first.

import { h } from "../dom.js";
import { part } from "../api.js";
import { duration, isGoing, seconds } from "../format.js";
import { badge, Browser, empty, heading, link, loading, table, time } from "../widgets.js";

const AT_ONCE = 500;
const PLACES = { elt_stream: "/streams/", transform: "/transforms/", orchestration: "/orchestrations/", reverse_etl: "/reverse/" };

// The end of the journal. The service returns entries after a number, and the number of remaining entries.
class Tail {
  constructor(client, kind) {
    Object.assign(this, { client, kind, items: [], loaded: false, complete: true, wanted: AT_ONCE });
  }

  async load(signal) {
    const first = await this.read(0, 1, signal);
    if (!first.data.length) {
      Object.assign(this, { items: [], loaded: true, complete: true });
      return;
    }
    // Numbers have gaps only after rollbacks, so the number of entries is approximate.
    const start = first.data[0].seq + first.total - 1 - this.wanted;
    const items = [];
    let after = Math.max(0, start);
    for (;;) {
      const page = await this.read(after, AT_ONCE, signal);
      items.push(...page.data);
      if (page.data.length < AT_ONCE) break;
      after = page.data.at(-1).seq;
    }
    this.items = items.reverse();
    this.complete = items.length >= first.total;
    this.loaded = true;
  }

  extend() {
    this.wanted += AT_ONCE * 2;
  }

  read(after, limit, signal) {
    return this.client.get("/_local/journal", { kind: this.kind, after, limit }, signal);
  }
}

export function journal(app, _, query) {
  const kind = query.kind === "requests" ? "requests" : "runs";
  const tail = new Tail(app.client, kind);
  let onlyChanges = query.reads !== "yes";
  const browser = new Browser(app, {
    filter: query.filter,
    text: (one) => `${one.kind || one.method} ${one.path || ""} ${one.query || ""} ${one.resource_id || ""} ${one.status} ${one.trigger || ""}`,
  });
  const items = () => (kind === "requests" && onlyChanges ? tail.items.filter((one) => one.method !== "GET") : tail.items);
  return {
    title: "Journal",
    query: () => ({ kind: query.kind, filter: browser.filter, reads: onlyChanges ? undefined : "yes" }),
    isGoing: () => kind === "runs" && tail.items.slice(0, 50).some((one) => isGoing(one.status)),
    load: (signal) => tail.load(signal),
    render() {
      const tab = (name, text) => link(`/journal?kind=${name}`, text, { "aria-current": name === kind ? "page" : null, key: name });
      const head = [
        heading("Journal"),
        h("nav", { class: "tabs", "aria-label": "Kinds of entries" }, tab("runs", "Runs"), tab("requests", "Requests")),
      ];
      if (!tail.loaded) return [...head, loading()];
      return [
        ...head,
        browser.field(`Filter ${kind}`),
        kind === "requests" ? h("label", { class: "choice" }, h("input", {
          type: "checkbox", checked: !onlyChanges,
          onchange: (event) => {
            onlyChanges = !event.target.checked;
            app.show();
            app.moved();
          },
        }), "Include GET requests, also those of this page") : null,
        kind === "runs" ? runTable(browser.rows(items())) : requestTable(browser.rows(items())),
        items().length ? browser.pager(items(), tail) : null,
      ];
    },
  };
}

function resource(one) {
  if (!one.resource_id) return h("span", { class: "none" }, "–");
  const place = PLACES[one.kind];
  return place ? link(place + part(one.resource_id), one.resource_id) : h("code", null, one.resource_id);
}

function runTable(rows) {
  return table({
    caption: "Runs", rows, key: (one) => one.seq, empty: empty("No runs are in the journal."),
    columns: [
      { label: "Of", class: "name", cell: resource },
      { label: "Kind", cell: (one) => String(one.kind).replaceAll("_", " ") },
      { label: "Status", cell: (one) => badge(one.status) },
      { label: "Trigger", cell: (one) => `${one.trigger}${one.request ? ` ${one.request}` : ""}` },
      { label: "Requested", cell: (one) => time(one.requested_at) },
      { label: "Duration", class: "number", cell: (one) => duration(seconds(one)) },
      { label: "No.", class: "number", cell: (one) => one.seq },
    ],
  });
}

function requestTable(rows) {
  return table({
    caption: "Requests", rows, key: (one) => one.seq, empty: empty("No such requests are in the journal."),
    columns: [
      { label: "Request", class: "name long", cell: (one) => h("code", null, `${one.method} ${one.path}${one.query ? `?${one.query}` : ""}`) },
      { label: "Answer", cell: (one) => (one.status === null ? badge("None", "bad") : badge(String(one.status), one.status < 400 ? "good" : "bad")) },
      { label: "Changed data", cell: (one) => (one.committed ? "Yes" : "No") },
      { label: "Fault", cell: (one) => (one.fault ? h("code", null, JSON.stringify(one.fault)) : h("span", { class: "none" }, "–")) },
      { label: "At", cell: (one) => time(one.at) },
      { label: "No.", class: "number", cell: (one) => one.seq },
    ],
  });
}
