// Resources, failures and the latest runs.

import { part } from "../api.js";
import { h } from "../dom.js";
import { isGoing, number, plural } from "../format.js";
import { badge, empty, heading, link, loading, section } from "../widgets.js";
import { orchestrationRuns } from "./orchestrations.js";
import { nameOf } from "./reverse.js";

const KINDS = [
  { path: "/connections", to: "/connections", title: "Connections" },
  { path: "/elt_syncs", to: "/syncs", title: "ELT syncs" },
  { path: "/elt_streams", to: "/streams", title: "Streams" },
  { path: "/transforms", to: "/transforms", title: "Transforms" },
  { path: "/orchestrations", to: "/orchestrations", title: "Orchestrations" },
  { path: "/reverse_etl_syncs", to: "/reverse", title: "Reverse ETL" },
];
const MOST_COUNTED = 10;

export function overview(app) {
  let [pages, runs, failures] = [null, [], []];
  return {
    title: "Overview",
    isGoing: () => runs.some((run) => isGoing(run.status)),
    async load(signal) {
      const got = await Promise.all([
        ...KINDS.map((kind) => app.client.page(kind.path, { limit: 100 }, signal)),
        app.client.page("/orchestration_runs", { limit: 10 }, signal),
      ]);
      runs = got.pop().items;
      pages = got;
      app.show();
      failures = await Promise.all(pages[5].items.slice(0, MOST_COUNTED).map((one) => counted(app.client, one, signal)));
    },
    render() {
      if (!pages) return [heading("Overview"), loading()];
      const things = attention(pages, failures);
      const nothing = pages.every((page) => !page.items.length);
      return [
        heading("Overview"),
        nothing ? empty("There are no resources yet.", "Give the home a seed: datapipe-local init --home DIR --seed FILE. The documentation describes seeds.") : null,
        h("ul", { class: "tiles" }, KINDS.map((kind, index) => h(
          "li", { key: kind.to },
          link(kind.to, [
            h("span", { class: "count" }, `${number(pages[index].items.length)}${pages[index].next === null ? "" : "+"}`),
            h("span", { class: "what" }, kind.title),
          ]),
        ))),
        nothing ? null : section("Needs attention", things.length
          ? h("ul", { class: "attention" }, things.map((one) => h("li", { key: one.to }, badge("FAILED"), link(one.to, one.name), h("span", { class: "note" }, one.why))))
          : h("p", { class: "fine" }, badge("Ok", "good"), everything(pages)
            ? "Nothing has failed." : `No failures among the first ${MOST_COUNTED} reverse ETL syncs and the first 100 of all other resources.`)),
        runs.length ? section("Latest orchestration runs", orchestrationRuns(
          runs, new Map(pages[4].items.map((one) => [one.id, one.name])), "Latest orchestration runs",
        )) : null,
      ];
    },
  };

  function attention([, syncs, , transforms, orchestrations], refused) {
    const latest = new Map();
    for (const run of runs) if (!latest.has(run.orchestration_id)) latest.set(run.orchestration_id, run);
    return [
      ...syncs.items.filter((one) => one.status === "FAILED").map((one) => ({
        to: `/syncs/${part(one.id)}`, name: one.destination_schema_name || one.id, why: "ELT sync: the latest run of a stream failed",
      })),
      ...transforms.items.filter((one) => one.materialization_status === "failed").map((one) => ({
        to: `/transforms/${part(one.id)}`, name: one.name, why: "Transform: the build failed",
      })),
      ...orchestrations.items.filter((one) => (latest.get(one.id) || {}).status === "FAILED").map((one) => ({
        to: `/orchestrations/${part(one.id)}`, name: one.name, why: "Orchestration: the latest run failed",
      })),
      ...refused.filter(({ count }) => count).map(({ one, count }) => ({
        to: `/reverse/${part(one.id)}`, name: nameOf(one), why: `Reverse ETL: ${plural(count, "record")} failed`,
      })),
    ];
  }
}

// True if the page has loaded all resources.
function everything(pages) {
  return pages.every((page) => page.next === null) && pages[5].items.length <= MOST_COUNTED;
}

async function counted(client, one, signal) {
  try {
    const { count } = await client.get("/reverse_etl_failed_records/count", { reverse_etl_sync_id: one.id }, signal);
    return { one, count };
  } catch (error) {
    if (error.status !== 404) throw error;
    return { one, count: 0 };
  }
}
