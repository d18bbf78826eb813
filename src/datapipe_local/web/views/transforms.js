// Transforms and their graph.

import { part } from "../api.js";
import { h } from "../dom.js";
import { number, plural } from "../format.js";
import { around, graph, MOST } from "../graph.js";
import { Listing } from "../lists.js";
import { badge, Browser, button, empty, facts, heading, link, loading, section, table, time } from "../widgets.js";
import { nameOf } from "./reverse.js";
import { scheduleOf } from "./syncs.js";

// Reference of a transform in SQL.
export function tagOf(one) {
  return ["model", ...(one.folder_path || "").split("/").filter(Boolean), one.name].join(".");
}

function fullName(one) {
  return one.folder_path ? `${one.folder_path}/${one.name}` : one.name;
}

function rebuild(app, one) {
  if (one.status !== "published" || one.materialization !== "table") return null;
  return button("Rematerialize", {
    label: `Rematerialize ${one.name}`, busy: app.isBusy(`run ${one.id}`),
    onclick: () => app.act(
      `run ${one.id}`, () => app.client.post(`/transforms/${part(one.id)}/rematerialize`), `${one.name} is being built again.`,
    ),
  });
}

function state(one) {
  if (one.status === "published" && one.materialization_status) return badge(one.materialization_status);
  return badge(one.status);
}

// Nodes and edges of all inputs and outputs of transforms.
export function dependencies(transforms, streams, schemas, syncs) {
  const nodes = new Map();
  const edges = [];
  const byTag = new Map();
  const streamOf = new Map(streams.map((one) => [`${schemas.get(one.elt_sync_id)}.${one.name}`, one]));
  for (const one of transforms) {
    byTag.set(tagOf(one), one.id);
    const failed = one.materialization_status === "failed";
    nodes.set(`t:${one.id}`, {
      id: `t:${one.id}`, label: fullName(one), href: `/transforms/${part(one.id)}`,
      kind: `${one.status === "draft" ? "draft" : "model"}${failed ? " failed" : ""}`,
      title: one.name,
      note: [one.status === "draft" ? "draft" : one.materialization, failed ? "failed" : null, one.folder_path].filter(Boolean).join(" · "),
    });
  }
  const raw = (place) => {
    const id = `r:${place}`;
    const stream = streamOf.get(place);
    nodes.set(id, { id, label: place, kind: "raw", note: "stream", href: stream ? `/streams/${part(stream.id)}` : null });
    return id;
  };
  for (const one of transforms) {
    for (const reference of one.parameters || []) {
      const tag = reference.weld_tag;
      let from = byTag.has(tag) ? `t:${byTag.get(tag)}` : null;
      if (from === null && reference.type === "raw_view") from = raw(tag.replace(/^raw\./, ""));
      if (from === null) {
        from = `u:${tag}`;
        nodes.set(from, { id: from, label: tag.replace(/^model\./, ""), kind: "unknown", note: "not there" });
      }
      edges.push([from, `t:${one.id}`]);
    }
  }
  for (const one of syncs) {
    const id = `x:${one.id}`;
    if (one.transform_id && !nodes.has(`t:${one.transform_id}`)) continue;
    nodes.set(id, { id, label: one.object_type_id, kind: "sink", note: "reverse ETL", href: `/reverse/${part(one.id)}`, name: nameOf(one) });
    edges.push([one.transform_id ? `t:${one.transform_id}` : raw(one.source_id), id]);
  }
  return { nodes: [...nodes.values()], edges };
}

class World {
  constructor(app) {
    this.transforms = new Listing(app.client, "/transforms");
    this.streams = new Listing(app.client, "/elt_streams");
    this.syncs = new Listing(app.client, "/elt_syncs");
    this.reverse = new Listing(app.client, "/reverse_etl_syncs");
    this.active = null;
    this.app = app;
  }

  async load(signal) {
    await this.transforms.load(signal, this.app.show);
    const others = [this.streams, this.syncs, this.reverse];
    // They only add names and end nodes to the graph.
    if (!this.isGoing() || others.some((one) => !one.loaded)) await Promise.all(others.map((one) => one.load(signal)));
  }

  isGoing() {
    return this.transforms.items.some((one) => one.materialization_status === "running");
  }

  everything() {
    const schemas = new Map(this.syncs.items.map((one) => [one.id, one.destination_schema_name]));
    return dependencies(this.transforms.items, this.streams.items, schemas, this.reverse.items);
  }

  draw({ nodes, edges }, current = null) {
    if (!nodes.length) return empty("There are too many transforms to show their dependencies.");
    const drawn = edges.filter(([from, to]) => from !== to);
    return graph(nodes, drawn, {
      label: `Graph: ${plural(nodes.length, "item")}, ${plural(drawn.length, "dependency", "dependencies")}`,
      current, active: this.active,
      onactive: (id) => {
        this.active = id;
        this.app.show();
      },
    });
  }
}

function legend() {
  const kinds = [["raw", "Stream"], ["model", "Transform"], ["draft", "Draft"], ["sink", "Reverse ETL"]];
  return h("ul", { class: "legend", "aria-label": "Legend" }, kinds.map(([kind, text]) => h("li", { class: kind }, text)));
}

export function transforms(app, _, query) {
  const world = new World(app);
  const browser = new Browser(app, { filter: query.filter, text: (one) => `${fullName(one)} ${one.id} ${one.status} ${one.materialization}` });
  return {
    title: "Transforms",
    query: () => ({ filter: browser.filter }),
    isGoing: () => world.isGoing(),
    load: (signal) => world.load(signal),
    render() {
      const list = world.transforms;
      if (!list.loaded && !list.items.length) return [heading("Transforms"), loading()];
      return [
        heading("Transforms"),
        list.items.length ? section("Graph", picture(world, browser)) : null,
        section("All transforms",
          browser.field("Filter transforms"),
          table({
            caption: "Transforms", rows: browser.rows(list.items), key: (one) => one.id,
            empty: list.items.length ? empty("No transform matches.") : empty("There are no transforms yet.", "A seed declares them, or POST /transforms."),
            columns: [
              { label: "Transform", class: "name", cell: (one) => link(`/transforms/${part(one.id)}`, fullName(one)) },
              { label: "Status", cell: state },
              { label: "Kind", cell: (one) => one.materialization },
              { label: "Reads", class: "long", cell: (one) => reads(one) },
              { label: "Schedule", cell: scheduleOf },
              { label: "Run", unseen: true, class: "end", cell: (one) => rebuild(app, one) },
            ],
          }),
          list.items.length ? browser.pager(list.items, list) : null),
      ];
    },
  };
}

function reads(one) {
  const tags = (one.parameters || []).map((reference) => reference.weld_tag);
  if (!tags.length) return h("span", { class: "none" }, "nothing");
  return tags.flatMap((tag, index) => [index ? ", " : null, h("code", { key: tag }, tag)]);
}

// The whole graph, or the neighborhood of the filtered transforms, if it is small enough.
function picture(world, browser) {
  const all = world.everything();
  const matching = browser.matching(world.transforms.items);
  let seen = new Set(all.nodes.map((node) => node.id));
  if (browser.filter.trim()) seen = around(matching.map((one) => `t:${one.id}`), all.edges);
  if (seen.size > MOST) {
    return empty(`The graph has ${number(seen.size)} items.`, "Filter transforms to see a part of it, or open one of them.");
  }
  if (!seen.size) return empty("No transform matches.");
  return [legend(), world.draw(among(all, seen))];
}

// Part of a graph.
function among({ nodes, edges }, ids) {
  return { nodes: nodes.filter((node) => ids.has(node.id)), edges: edges.filter(([from, to]) => ids.has(from) && ids.has(to)) };
}

export function transform(app, [id]) {
  const world = new World(app);
  let [one, columns, hidden] = [null, [], null];
  return {
    title: "Transform",
    isGoing: () => one !== null && one.materialization_status === "running",
    async load(signal) {
      one = await app.client.get(`/transforms/${part(id)}`, {}, signal);
      this.title = fullName(one);
      app.show();
      if (one.status === "published" && one.materialization_status !== "running") {
        try {
          columns = (await app.client.get(`/transforms/${part(id)}/schema`, {}, signal)).data;
          hidden = null;
        } catch (error) {
          if (!error.status) throw error;
          hidden = error.message;
        }
      }
      await world.load(signal);
    },
    render() {
      if (!one) return [heading("Transform"), loading()];
      const all = world.everything();
      const seen = around([`t:${id}`], all.edges);
      const action = rebuild(app, one);
      return [
        heading(fullName(one), { over: link("/transforms", "Transforms"), status: state(one), actions: action ? [action] : [] }),
        one.materialization_error ? h("p", { class: "problem", role: "note" }, h("strong", null, "The build failed. "), one.materialization_error) : null,
        facts([
          ["Id", h("code", null, one.id)],
          ["Kind", one.materialization],
          ["Named", h("code", null, `{{${tagOf(one)}}}`)],
          ["Built", one.rebuild_trigger === "none" ? "On request" : scheduleOf(one)],
          ["Created", time(one.created_at)],
          ["Changed", time(one.updated_at)],
        ]),
        one.documentation ? h("p", { class: "prose" }, one.documentation) : null,
        section("Dependencies",
          !world.transforms.loaded ? loading()
            : seen.size > MOST ? empty(`${number(seen.size)} related items are too many for a graph.`)
              : [legend(), world.draw(among(all, seen), `t:${id}`)]),
        section("SQL", h("pre", { tabindex: "0", role: "region", "aria-label": "SQL" }, h("code", null, one.sql_template))),
        one.status === "published" ? section("Columns", hidden ? h("p", { class: "note" }, hidden) : table({
          caption: "Columns", rows: columns, key: (column) => column.name, empty: empty("The columns are not known yet."),
          columns: [
            { label: "Column", class: "name", cell: (column) => h("code", null, column.name) },
            { label: "Type", cell: (column) => h("code", null, column.type) },
            { label: "Nullable", cell: (column) => (column.nullable ? "Yes" : "No") },
          ],
        })) : null,
      ];
    },
  };
}
