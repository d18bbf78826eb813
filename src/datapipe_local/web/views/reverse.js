// Reverse ETL: syncs, runs and failed records.

import { part } from "../api.js";
import { h } from "../dom.js";
import { duration, isGoing, number, plural, seconds } from "../format.js";
import { forEachExisting, Listing, Runs } from "../lists.js";
import { plots } from "../plot.js";
import {
  badge, Browser, button, empty, facts, heading, link, loading, olderRuns, runNow, section, table, time,
} from "../widgets.js";
import { scheduleOf } from "./syncs.js";

const MOST_FAILURES = 100;
const FIRST_FAILURES = 10;

export function nameOf(one) {
  return `${one.source_id} → ${one.object_type_id}`;
}

function run(app, one) {
  return runNow(app, { name: nameOf(one), path: `/reverse_etl_syncs/${part(one.id)}/request_run`, busyKey: `run ${one.id}` });
}

function source(one) {
  return one.transform_id ? link(`/transforms/${part(one.transform_id)}`, one.source_id) : h("code", null, one.source_id);
}

function destination(one) {
  return [one.destination_connection_id, h("span", { class: "note" }, ` (${one.destination_integration_id})`)];
}

// Load the newest run and the number of failed records of each shown sync.
function loadLatest(client, syncs, seen, signal) {
  return forEachExisting(syncs, async (one) => {
    const query = { reverse_etl_sync_id: one.id };
    const [runs, failures] = await Promise.all([
      client.page("/reverse_etl_sync_runs", { ...query, limit: 1 }, signal),
      client.get("/reverse_etl_failed_records/count", query, signal),
    ]);
    seen.set(one.id, { run: runs.items[0] || {}, failures: failures.count });
  });
}

export function reverseSyncs(app, _, query) {
  const list = new Listing(app.client, "/reverse_etl_syncs", { destination_connection_id: query.connection });
  const browser = new Browser(app, { filter: query.filter, text: (one) => `${nameOf(one)} ${one.id} ${one.destination_connection_id}` });
  const seen = new Map();
  const latest = (one) => seen.get(one.id) || { run: {} };
  const shown = () => browser.rows(list.items);
  return {
    title: "Reverse ETL",
    query: () => ({ connection: query.connection, filter: browser.filter }),
    isGoing: () => shown().some((one) => isGoing(latest(one).run.status)),
    async load(signal) {
      await list.load(signal, app.show);
      await loadLatest(app.client, shown(), seen, signal);
    },
    moved: () => app.again(300),
    render() {
      if (!list.loaded && !list.items.length) return [heading("Reverse ETL"), loading()];
      return [
        heading("Reverse ETL", { over: query.connection ? `To the connection ${query.connection}` : null }),
        browser.field("Filter syncs"),
        table({
          caption: "Reverse ETL syncs", rows: shown(), key: (one) => one.id,
          empty: list.items.length ? empty("No sync matches.") : empty("There are no reverse ETL syncs here yet."),
          columns: [
            { label: "Sync", class: "name", cell: (one) => link(`/reverse/${part(one.id)}`, nameOf(one)) },
            { label: "Destination", cell: destination },
            { label: "Latest run", cell: (one) => (one.enabled ? badge(latest(one).run.status) : badge("Deactivated")) },
            { label: "Finished", cell: (one) => time(latest(one).run.finished_at) },
            {
              label: "Failed records", class: "number",
              cell: (one) => (latest(one).failures
                ? link(`/reverse/${part(one.id)}`, number(latest(one).failures), { class: "bad" })
                : number(latest(one).failures)),
            },
            { label: "Run", unseen: true, class: "end", cell: (one) => run(app, one) },
          ],
        }),
        list.items.length ? browser.pager(list.items, list) : null,
      ];
    },
  };
}

export function reverseSync(app, [id]) {
  const runs = new Runs(app.client, "/reverse_etl_sync_runs", { reverse_etl_sync_id: id });
  let [one, failures, count, all] = [null, [], 0, false];
  return {
    title: "Reverse ETL sync",
    isGoing: () => runs.items.some((run) => isGoing(run.status)),
    async load(signal) {
      const query = { reverse_etl_sync_id: id };
      let records;
      let counted;
      [one, , records, counted] = await Promise.all([
        app.client.get(`/reverse_etl_syncs/${part(id)}`, {}, signal),
        runs.load(signal),
        app.client.page("/reverse_etl_failed_records", { ...query, limit: MOST_FAILURES }, signal),
        app.client.get("/reverse_etl_failed_records/count", query, signal),
      ]);
      [failures, count] = [records.items, counted.count];
      this.title = nameOf(one);
    },
    render() {
      if (!one) return [heading("Reverse ETL sync"), loading()];
      const latest = runs.items[0] || {};
      const { mode, mappings = [] } = one.operation || {};
      return [
        heading(nameOf(one), {
          over: link("/reverse", "Reverse ETL"), status: one.enabled ? badge(latest.status) : badge("Deactivated"), actions: [run(app, one)],
        }),
        latest.error ? h("p", { class: "problem", role: "note" }, h("strong", null, "The latest run failed. "), latest.error) : null,
        facts([
          ["Id", h("code", null, one.id)],
          ["Source", source(one)],
          ["Destination", destination(one)],
          ["Operation", mode],
          ["Schedule", scheduleOf(one)],
          ["Settings", one.settings && Object.keys(one.settings).length ? h("code", null, JSON.stringify(one.settings)) : null],
          ["Mappings", h("ul", { class: "plain" }, mappings.map((each) => h(
            "li", { key: `${each.source_property_id} ${each.destination_property_id}` },
            h("code", null, each.source_property_id), " → ", h("code", null, each.destination_property_id), each.primary_key ? " (key)" : null,
          )))],
          ["Created", time(one.created_at)],
          ["Changed", time(one.updated_at)],
        ]),
        section("Failed records", failed(app, id, all ? failures : failures.slice(0, FIRST_FAILURES), count),
          !all && failures.length > FIRST_FAILURES ? h("p", { class: "more" }, button(`Show ${number(failures.length)}`, {
            onclick: () => {
              all = true;
              app.show();
            },
          })) : null),
        section("Runs",
          plots(runs.items, { width: app.width, rows: { title: "Written records", of: (run) => run.synced_rows }, seconds }),
          table({
            caption: `Runs of ${nameOf(one)}`, rows: runs.items, key: (run) => run.id,
            empty: empty("It has not run yet.", "“Run now” sends the new records."),
            columns: [
              { label: "Started", cell: (run) => time(run.started_at) },
              { label: "Status", cell: (run) => badge(run.status) },
              { label: "Rows", class: "number", cell: (run) => number(run.total_rows) },
              { label: "Sent", class: "number", cell: (run) => number(run.new_rows) },
              { label: "Written", class: "number", cell: (run) => number(run.synced_rows) },
              { label: "Failed", class: "number", cell: (run) => (run.failed_rows ? h("span", { class: "bad" }, number(run.failed_rows)) : number(run.failed_rows)) },
              { label: "Duration", class: "number", cell: (run) => duration(seconds(run)) },
            ],
          }),
          runs.items.length ? olderRuns(app, runs) : null),
      ];
    },
  };
}

function failed(app, id, failures, count) {
  if (!count) return empty("No record has failed.", "Records that the destination rejects appear here, with the reason.");
  const query = { reverse_etl_sync_id: id };
  const retry = (ids, message) => app.act(
    `retry ${ids ? ids[0] : ""}`,
    () => (ids
      ? app.client.post("/reverse_etl_failed_records/retry", query, { record_ids: ids })
      : app.client.post("/reverse_etl_failed_records/retry_all", query)),
    `${message} again by the next run.`,
  );
  return [
    h("div", { class: "toolbar" },
      h("p", { class: "note" }, plural(count, "record"), " failed. Those that are retried are sent by the next run.",
        count > failures.length ? ` The first ${number(failures.length)} are shown.` : null),
      button("Retry all", { busy: app.isBusy("retry "), onclick: () => retry(null, "All failed records are sent") })),
    table({
      caption: "Failed records", rows: failures, key: (one) => one.record_id, empty: null,
      columns: [
        { label: "Record", class: "name", cell: (one) => h("code", null, one.record_id) },
        { label: "Reason", class: "long", cell: (one) => one.error },
        {
          label: "Retry", unseen: true, class: "end",
          cell: (one) => button("Retry", {
            label: `Retry record ${one.record_id}`, busy: app.isBusy(`retry ${one.record_id}`),
            onclick: () => retry([one.record_id], `Record ${one.record_id} is sent`),
          }),
        },
      ],
    }),
  ];
}
