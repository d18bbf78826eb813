// Connections and ELT syncs.

import { part } from "../api.js";
import { h } from "../dom.js";
import { isGoing } from "../format.js";
import { Listing } from "../lists.js";
import { badge, Browser, cron, empty, facts, heading, link, loading, section, table, time } from "../widgets.js";
import { States, streamTable } from "./streams.js";

export function connections(app, _, query) {
  const list = new Listing(app.client, "/connections");
  const sources = new Listing(app.client, "/integrations", { ability: "EltSource" });
  const destinations = new Listing(app.client, "/integrations", { ability: "ReverseEtlDestination" });
  const among = (kinds, one) => kinds.items.some((kind) => kind.id === one.integration_id);
  const browser = new Browser(app, { filter: query.filter, text: (one) => `${one.label} ${one.id} ${one.integration_id}` });
  return {
    title: "Connections",
    query: () => ({ filter: browser.filter }),
    isGoing: () => false,
    load: (signal) => Promise.all([
      list.load(signal, app.show), ...[sources, destinations].filter((kinds) => !kinds.loaded).map((kinds) => kinds.load(signal)),
    ]),
    render() {
      if (!list.loaded && !list.items.length) return [heading("Connections"), loading()];
      return [
        heading("Connections"),
        browser.field("Filter connections"),
        table({
          caption: "Connections", rows: browser.rows(list.items), key: (one) => one.id,
          empty: list.items.length
            ? empty("No connection matches.")
            : empty("There are no connections yet.", "A seed declares them, or POST /connection_bridges lets a person connect."),
          columns: [
            { label: "Connection", class: "name", cell: (one) => one.label },
            { label: "Kind", cell: (one) => h("code", { class: "whole" }, one.integration_id) },
            { label: "Id", cell: (one) => h("code", null, one.id) },
            { label: "Created", cell: (one) => time(one.created_at) },
            {
              label: "Used by", unseen: true, class: "end",
              cell: (one) => [
                among(sources, one) ? link(`/syncs?connection=${part(one.id)}`, "ELT syncs", { "aria-label": `ELT syncs of ${one.label}` }) : null,
                among(destinations, one) ? link(`/reverse?connection=${part(one.id)}`, "Reverse ETL", { "aria-label": `Reverse ETL syncs of ${one.label}` }) : null,
              ],
            },
          ],
        }),
        list.items.length ? browser.pager(list.items, list) : null,
      ];
    },
  };
}

function source(one) {
  return [one.source_connection_id, h("span", { class: "note" }, ` (${one.source_integration_id})`)];
}

// RUNNING means that the sync is enabled and has had runs, not that a run is active.
export function syncBadge(sync) {
  return badge(sync.status, sync.status === "RUNNING" ? "good" : sync.status === "NOT_STARTED" ? "quiet" : undefined);
}

export function scheduleOf(one) {
  if (one.orchestration_workflow_id) {
    return link(`/orchestrations/${part(one.orchestration_workflow_id)}`, "With its orchestration");
  }
  return cron(one.sync_interval || one.cron_expression);
}

export function syncs(app, _, query) {
  const list = new Listing(app.client, "/elt_syncs", { connection_id: query.connection });
  const browser = new Browser(app, {
    filter: query.filter, text: (one) => `${one.destination_schema_name} ${one.id} ${one.source_connection_id} ${one.status}`,
  });
  return {
    title: "ELT syncs",
    query: () => ({ connection: query.connection, filter: browser.filter }),
    isGoing: () => false,
    load: (signal) => list.load(signal, app.show),
    render() {
      if (!list.loaded && !list.items.length) return [heading("ELT syncs"), loading()];
      return [
        heading("ELT syncs", { over: query.connection ? `Of the connection ${query.connection}` : null }),
        browser.field("Filter syncs"),
        table({
          caption: "ELT syncs", rows: browser.rows(list.items), key: (one) => one.id,
          empty: list.items.length ? empty("No sync matches.") : empty("There are no ELT syncs here yet."),
          columns: [
            { label: "Schema", class: "name", cell: (one) => link(`/syncs/${part(one.id)}`, one.destination_schema_name || one.id) },
            { label: "Status", cell: syncBadge },
            { label: "Source", cell: source },
            { label: "Schedule", cell: scheduleOf },
            { label: "Changed", cell: (one) => time(one.updated_at) },
            {
              label: "Streams", unseen: true, class: "end",
              cell: (one) => link(`/streams?sync=${part(one.id)}`, "Streams", { "aria-label": `Streams of ${one.destination_schema_name}` }),
            },
          ],
        }),
        list.items.length ? browser.pager(list.items, list) : null,
      ];
    },
  };
}

export function sync(app, [id], query) {
  const states = new States(app.client);
  const list = new Listing(app.client, "/elt_streams", { elt_sync_id: id });
  const browser = new Browser(app, { filter: query.filter, text: (stream) => `${stream.name} ${stream.id}` });
  let one = null;
  const shown = () => browser.rows(list.items);
  return {
    title: "ELT sync",
    query: () => ({ filter: browser.filter }),
    isGoing: () => shown().some((stream) => isGoing(states.of(stream).status)),
    async load(signal) {
      one = await app.client.get(`/elt_syncs/${part(id)}`, {}, signal);
      this.title = one.destination_schema_name || one.id;
      await list.load(signal, app.show);
      await states.load([{ elt_sync_id: id }], signal);
    },
    render() {
      if (!one) return [heading("ELT sync"), loading()];
      return [
        heading(one.destination_schema_name || one.id, { over: link("/syncs", "ELT syncs"), status: syncBadge(one) }),
        facts([
          ["Id", h("code", null, one.id)],
          ["Source", source(one)],
          ["Schedule", scheduleOf(one)],
          ["Enabled", one.enabled ? "Yes" : "No"],
          ["Since", one.start_date && time(one.start_date)],
          ["Settings", one.config && h("code", null, JSON.stringify(one.config))],
          ["Created", time(one.created_at)],
          ["Changed", time(one.updated_at)],
        ]),
        section("Streams",
          browser.field("Filter streams"),
          streamTable(app, shown(), {
            state: (stream) => states.of(stream), withSync: false,
            nothing: list.items.length ? empty("No stream matches.") : empty("This sync has no streams yet."),
          }),
          list.items.length ? browser.pager(list.items, list) : null),
      ];
    },
  };
}
