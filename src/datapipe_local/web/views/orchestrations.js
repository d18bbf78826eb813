// Orchestrations and their runs.

import { part } from "../api.js";
import { h } from "../dom.js";
import { duration, isGoing, plural, seconds } from "../format.js";
import { Listing, Runs } from "../lists.js";
import { plots } from "../plot.js";
import {
  badge, Browser, cron, empty, facts, heading, link, loading, olderRuns, runNow, section, table, time,
} from "../widgets.js";

export function orchestrationRuns(runs, names, caption) {
  return table({
    caption, rows: runs, key: (run) => run.id, empty: empty("There were no runs yet."),
    columns: [
      { label: "Due", cell: (run) => time(run.due_at) },
      ...(names
        ? [{
          label: "Orchestration", class: "name",
          cell: (run) => link(`/orchestrations/${part(run.orchestration_id)}`, names.get(run.orchestration_id) || run.orchestration_id),
        }]
        : []),
      { label: "Status", cell: (run) => badge(run.status) },
      { label: "Started", class: "wide", cell: (run) => time(run.started_at) },
      { label: "Duration", class: "number", cell: (run) => duration(seconds(run)) },
    ],
  });
}

function run(app, one) {
  return runNow(app, { name: one.name, path: `/orchestrations/${part(one.id)}/request_run`, busyKey: `run ${one.id}` });
}

export function orchestrations(app, _, query) {
  const list = new Listing(app.client, "/orchestrations");
  const recent = new Runs(app.client, "/orchestration_runs", {});
  const browser = new Browser(app, { filter: query.filter, text: (one) => `${one.name} ${one.id} ${one.cron_schedule}` });
  const latest = (one) => recent.items.find((run) => run.orchestration_id === one.id) || {};
  return {
    title: "Orchestrations",
    query: () => ({ filter: browser.filter }),
    isGoing: () => recent.items.some((run) => isGoing(run.status)),
    load: (signal) => Promise.all([list.load(signal, app.show), recent.load(signal)]),
    render() {
      if (!list.loaded && !list.items.length) return [heading("Orchestrations"), loading()];
      return [
        heading("Orchestrations"),
        browser.field("Filter orchestrations"),
        table({
          caption: "Orchestrations", rows: browser.rows(list.items), key: (one) => one.id,
          empty: list.items.length ? empty("No orchestration matches.") : empty("There are no orchestrations yet."),
          columns: [
            { label: "Orchestration", class: "name", cell: (one) => link(`/orchestrations/${part(one.id)}`, one.name) },
            { label: "Schedule", cell: (one) => cron(one.cron_schedule) },
            { label: "Latest run", cell: (one) => badge(latest(one).status) },
            { label: "Due", cell: (one) => time(latest(one).due_at) },
            { label: "Run", unseen: true, class: "end", cell: (one) => run(app, one) },
          ],
        }),
        list.items.length ? browser.pager(list.items, list) : null,
        recent.items.length
          ? section("Latest runs",
            orchestrationRuns(recent.items.slice(0, 20), new Map(list.items.map((one) => [one.id, one.name])), "Latest runs"))
          : null,
      ];
    },
  };
}

export function orchestration(app, [id]) {
  const runs = new Runs(app.client, "/orchestration_runs", { orchestration_id: id });
  const parts = [
    { title: "ELT syncs", list: new Listing(app.client, "/elt_syncs"), name: (one) => one.destination_schema_name, to: "/syncs/" },
    { title: "Transforms", list: new Listing(app.client, "/transforms"), name: (one) => one.name, to: "/transforms/" },
    { title: "Reverse ETL", list: new Listing(app.client, "/reverse_etl_syncs"), name: (one) => `${one.source_id} → ${one.object_type_id}`, to: "/reverse/" },
  ];
  let one = null;
  return {
    title: "Orchestration",
    isGoing: () => runs.items.some((run) => isGoing(run.status)),
    async load(signal) {
      one = await app.client.get(`/orchestrations/${part(id)}`, {}, signal);
      this.title = one.name;
      await runs.load(signal);
      app.show();
      for (const { list } of parts) if (!list.loaded || !this.isGoing()) await list.load(signal);
    },
    render() {
      if (!one) return [heading("Orchestration"), loading()];
      const attached = parts.map((kind) => ({
        ...kind, items: kind.list.items.filter((item) => item.orchestration_workflow_id === id),
      }));
      const count = attached.reduce((sum, kind) => sum + kind.items.length, 0);
      return [
        heading(one.name, {
          over: link("/orchestrations", "Orchestrations"), status: badge((runs.items[0] || {}).status), actions: [run(app, one)],
        }),
        facts([["Id", h("code", null, one.id)], ["Schedule", cron(one.cron_schedule)]]),
        section("Parts",
          h("p", { class: "note" }, count ? `${plural(count, "part")} ${count === 1 ? "is" : "are"} attached to it.` : "Nothing is attached to it yet."),
          attached.filter((kind) => kind.items.length).map((kind) => h(
            "div", { class: "parts", key: kind.title },
            h("h3", null, kind.title),
            h("ul", { class: "chips" }, kind.items.map((item) => h("li", { key: item.id }, link(kind.to + part(item.id), kind.name(item) || item.id)))),
          ))),
        section("Runs",
          plots(runs.items, { width: app.width, seconds }),
          orchestrationRuns(runs.items, null, `Runs of ${one.name}`),
          runs.items.length ? olderRuns(app, runs) : null),
      ];
    },
  };
}
