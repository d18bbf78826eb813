// Streams: the list with their latest runs, and one stream with its runs.

import { part } from "../api.js";
import { h } from "../dom.js";
import { duration, isGoing, number, seconds } from "../format.js";
import { forEachExisting, Listing, Runs } from "../lists.js";
import { plots } from "../plot.js";
import {
  badge, Browser, cron, empty, facts, heading, link, loading, olderRuns, runNow, section, table, time,
} from "../widgets.js";

export function streams(app, _, query) {
  const list = new Listing(app.client, "/elt_streams", { elt_sync_id: query.sync });
  const syncs = new Listing(app.client, "/elt_syncs");
  const states = new States(app.client);
  const browser = new Browser(app, {
    filter: query.filter, text: (stream) => `${stream.name} ${stream.id} ${schema(syncs, stream)}`,
  });
  const shown = () => browser.rows(list.items);
  return {
    title: "Streams",
    query: () => ({ sync: query.sync, filter: browser.filter }),
    isGoing: () => shown().some((stream) => isGoing(states.of(stream).status)),
    async load(signal) {
      await Promise.all([list.load(signal, app.show), syncs.load(signal)]);
      await states.load(shown(), signal);
    },
    // Another page contains streams of other syncs.
    moved: () => app.again(300),
    render() {
      if (!list.loaded && !list.items.length) return [heading("Streams"), loading()];
      return [
        heading("Streams", { over: query.sync ? ["Of the sync ", link(`/syncs/${part(query.sync)}`, schemaOf(syncs, query.sync))] : null }),
        browser.field("Filter streams"),
        streamTable(app, shown(), {
          state: (stream) => states.of(stream), schema: (stream) => schema(syncs, stream),
          nothing: list.items.length
            ? empty("No stream matches.", "Try another word.")
            : empty("There are no streams yet.", "A seed declares them: datapipe-local init --seed."),
        }),
        list.items.length ? browser.pager(list.items, list) : null,
      ];
    },
  };
}

function schema(syncs, stream) {
  return schemaOf(syncs, stream.elt_sync_id);
}

function schemaOf(syncs, id) {
  const sync = syncs.items.find((one) => one.id === id);
  return (sync && sync.destination_schema_name) || id;
}

// State of the streams, from the status of their syncs.
export class States {
  constructor(client) {
    Object.assign(this, { client, bySync: new Map() });
  }

  of(stream) {
    const known = (this.bySync.get(stream.elt_sync_id) || new Map()).get(stream.name);
    if (!known) return {};
    return known.active_sync || known.latest_sync || {};
  }

  latest(stream) {
    const known = (this.bySync.get(stream.elt_sync_id) || new Map()).get(stream.name);
    return (known && known.latest_sync) || {};
  }

  async load(streams, signal) {
    await forEachExisting(new Set(streams.map((stream) => stream.elt_sync_id)), async (id) => {
      const answer = await this.client.get(`/elt_syncs/${part(id)}/status`, {}, signal);
      this.bySync.set(id, new Map((answer.source_streams || []).map((one) => [one.name, one])));
    });
  }
}

export function streamTable(app, rows, { state, schema: schemaName, nothing, withSync = true }) {
  return table({
    caption: "Streams", rows, key: (stream) => stream.id, empty: nothing,
    columns: [
      { label: "Stream", class: "name", cell: (stream) => link(`/streams/${part(stream.id)}`, stream.name) },
      ...(withSync
        ? [{ label: "Sync", cell: (stream) => link(`/syncs/${part(stream.elt_sync_id)}`, schemaName(stream)) }]
        : []),
      { label: "Status", cell: (stream) => badge(state(stream).status) },
      { label: "Rows", class: "number", cell: (stream) => number(state(stream).records_synced) },
      { label: "Last run", cell: (stream) => time(state(stream).finished_at || state(stream).started_at) },
      {
        label: "Run", unseen: true, class: "end",
        cell: (stream) => runNow(app, {
          name: stream.name, path: `/elt_streams/${part(stream.id)}/request_run`, busyKey: `run ${stream.id}`,
        }),
      },
    ],
  });
}

export function stream(app, [id]) {
  const states = new States(app.client);
  const runs = new Runs(app.client, "/elt_stream_runs", { elt_stream_id: id });
  let one = null;
  let known = { columns: [], rows: null };
  return {
    title: "Stream",
    isGoing: () => one !== null && (isGoing(states.of(one).status) || runs.items.some((run) => isGoing(run.status))),
    async load(signal) {
      one = await app.client.get(`/elt_streams/${part(id)}`, {}, signal);
      this.title = one.name;
      const columns = async () => {
        known = await app.client.get(`/web/streams/${part(id)}/columns`, {}, signal);
      };
      await Promise.all([states.load([one], signal), runs.load(signal), columns()]);
    },
    render() {
      if (!one) return [heading("Stream"), loading()];
      const state = states.of(one);
      const problem = states.latest(one).error_message;
      const yes = (flag) => (flag ? "Yes" : null);
      return [
        heading(one.name, {
          over: [link("/streams", "Streams"), " / ", link(`/syncs/${part(one.elt_sync_id)}`, one.elt_sync_id)],
          status: badge(state.status),
          actions: [runNow(app, { name: one.name, path: `/elt_streams/${part(id)}/request_run`, busyKey: `run ${id}` })],
        }),
        problem ? h("p", { class: "problem", role: "note" }, h("strong", null, "The latest run failed. "), problem) : null,
        facts([
          ["Id", h("code", null, one.id)],
          ["Schedule", one.sync_interval ? cron(one.sync_interval) : "With its sync"],
          ["Mode", state.operation_mode && state.operation_mode.toLowerCase()],
          ["Pointer", one.incremental_pointer_id],
          ["Primary key", (one.incremental_primary_key_name || []).join(", ")],
          ["Always full", yes(one.full_sync_always)],
          ["Full at midnight", yes(one.full_sync_at_midnight)],
          ["Protected from full loads", yes(one.protected_from_full_sync)],
          ["History table", yes(one.enabled_history_table)],
          ["Without", (one.excluded_substreams || []).join(", ")],
          ["Created", time(one.created_at)],
          ["Changed", time(one.updated_at)],
        ]),
        section("Runs",
          plots(runs.items, { width: app.width, rows: { title: "Rows", of: (run) => run.rows_synced }, seconds }),
          table({
            caption: `Runs of ${one.name}`, rows: runs.items, key: (run) => run.id,
            empty: empty("It has not run yet.", "“Run now” loads it."),
            columns: [
              { label: "Started", cell: (run) => time(run.started_at) },
              { label: "Status", cell: (run) => badge(run.status) },
              { label: "Rows", class: "number", cell: (run) => number(run.rows_synced) },
              { label: "Duration", class: "number", cell: (run) => duration(seconds(run)) },
              { label: "Finished", class: "wide", cell: (run) => time(run.finished_at) },
            ],
          }),
          runs.items.length ? olderRuns(app, runs) : null),
        section("Columns",
          known.rows === null ? null : h("p", { class: "note" }, `Rows of the last load: ${number(known.rows)}.`),
          columnTable(one.name, known.columns)),
      ];
    },
  };
}

function columnTable(name, columns) {
  return table({
    caption: `Columns of ${name}`, rows: columns, key: (column) => column.name,
    empty: empty("There is no table yet.", "The first load creates it."),
    columns: [
      { label: "Column", class: "name", cell: (column) => column.name },
      { label: "Type", cell: (column) => h("code", null, column.type) },
      { label: "Hashed", cell: (column) => (column.hashed ? "Yes" : null) },
    ],
  });
}
