// A query preview: its status and its first rows.

import { part } from "../api.js";
import { h } from "../dom.js";
import { number, plural } from "../format.js";
import { badge, empty, facts, heading, loading, section, table } from "../widgets.js";

// Text of a value of a row.
function shown(value) {
  if (value === null || value === undefined) return h("span", { class: "none" }, "null");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

export function queryPreview(app, [id]) {
  const path = `/transforms/query_previews/${part(id)}`;
  let [preview, result] = [null, null];
  return {
    title: "Query preview",
    isGoing: () => preview !== null && preview.status === "RUNNING",
    async load(signal) {
      preview = await app.client.get(`${path}/status`, {}, signal);
      // Rows do not change once the query is done.
      if (preview.status === "DONE" && !result) result = await app.client.get(`${path}/result`, {}, signal);
    },
    render() {
      if (!preview) return [heading("Query preview"), loading()];
      return [
        heading("Query preview", { status: badge(preview.status) }),
        preview.error ? h("p", { class: "problem", role: "note" }, h("strong", null, "The query failed. "), preview.error) : null,
        facts([
          ["Id", h("code", null, id)],
          ["Rows", result ? number(result.num_rows_total) : null],
        ]),
        result ? section("Result", result.rows.length < result.num_rows_total ? h("p", { class: "note" }, `The first ${plural(result.rows.length, "row")}.`) : null, table({
          caption: "Result",
          columns: Object.keys(result.rows[0] || {}).map((name) => ({ label: name, cell: ([row]) => shown(row[name]) })),
          rows: result.rows.map((row, position) => [row, position]),
          key: ([, position]) => position,
          empty: empty("The query has no rows."),
        })) : null,
      ];
    },
  };
}
