// Widgets of the views.

import { h } from "./dom.js";
import { moment, number, plural, tone, utc, word } from "./format.js";

const ROWS = 50;

export function link(address, text, props = {}) {
  return h("a", { href: `#${address}`, ...props }, text);
}

export function time(text) {
  if (!text) return h("span", { class: "none" }, "–");
  return h("time", { datetime: text, title: utc(text) }, moment(text));
}

export function badge(status, kind = tone(status)) {
  if (!status) return h("span", { class: "none" }, "–");
  return h("span", { class: `badge ${kind}` }, h("span", { class: "dot", "aria-hidden": "true" }), word(status));
}

export function cron(expression) {
  if (!expression) return h("span", { class: "none" }, "–");
  return h("code", { class: "whole", title: "A cron expression, in UTC" }, expression);
}

// Button for a request. It is inactive during the request, but keeps the focus.
export function button(text, { busy = false, label, onclick, kind = "" }) {
  return h(
    "button",
    {
      type: "button", class: kind, "aria-label": label, "aria-disabled": busy ? "true" : null,
      onclick: () => !busy && onclick(),
    },
    text,
  );
}

export function runNow(app, { name, path, busyKey }) {
  return button("Run now", {
    label: `Run ${name} now`,
    busy: app.isBusy(busyKey),
    onclick: () => app.act(busyKey, () => app.client.post(path), `A run of ${name} was requested.`),
  });
}

// A table. Each column: label, cell(row), and class. Narrow screens show a row as a card, so the roles are explicit.
export function table({ caption, columns, rows, key, empty }) {
  if (!rows.length) return empty;
  return h(
    "div", { class: "table" },
    h(
      "table", { role: "table" },
      h("caption", { class: "unseen" }, caption),
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map((column) => h(
        "th", { scope: "col", role: "columnheader", class: column.class, key: column.label },
        column.unseen ? h("span", { class: "unseen" }, column.label) : column.label,
      )))),
      h("tbody", { role: "rowgroup" }, rows.map((row) => h(
        "tr", { role: "row", key: key(row) },
        columns.map((column, index) => h(
          index === 0 ? "th" : "td",
          {
            class: column.class, "data-label": column.unseen ? null : column.label,
            role: index === 0 ? "rowheader" : "cell", scope: index === 0 ? "row" : null,
          },
          column.cell(row),
        )),
      ))),
    ),
  );
}

export function empty(title, ...text) {
  return h("div", { class: "empty" }, h("p", { class: "lead" }, title), text.length ? h("p", null, text) : null);
}

export function loading() {
  return h("p", { class: "loading", role: "status" }, "Loading…");
}

// Description list without empty values.
export function facts(entries) {
  const known = entries.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h("dl", { class: "facts" }, known.map(([term, value]) => h("div", { key: term }, h("dt", null, term), h("dd", null, value))));
}

export function heading(title, { over = null, status = null, actions = [] } = {}) {
  return h(
    "header", { class: "heading" },
    h("div", null, over ? h("p", { class: "over" }, over) : null, h("h1", { tabindex: "-1", id: "title" }, title), status),
    actions.length ? h("div", { class: "actions" }, actions) : null,
  );
}

export function section(title, ...content) {
  const id = `s-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  return h("section", { "aria-labelledby": id, key: id }, h("h2", { id }, title), content);
}

// Filter and pages for loaded rows, so that thousands of rows stay usable.
export class Browser {
  constructor(app, { filter = "", text }) {
    Object.assign(this, { app, filter, text, page: 0 });
  }

  matching(items) {
    const words = this.filter.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return items;
    return items.filter((item) => {
      const text = this.text(item).toLowerCase();
      return words.every((one) => text.includes(one));
    });
  }

  // Rows of the current page.
  rows(items) {
    const all = this.matching(items);
    const last = Math.max(0, Math.ceil(all.length / ROWS) - 1);
    this.page = Math.min(this.page, last);
    return all.slice(this.page * ROWS, (this.page + 1) * ROWS);
  }

  field(label) {
    return h(
      "div", { class: "filter" },
      h("label", { for: "filter" }, label),
      h("input", {
        id: "filter", type: "search", value: this.filter, autocomplete: "off", spellcheck: "false",
        oninput: (event) => {
          this.filter = event.target.value;
          this.page = 0;
          this.app.show();
          this.app.moved();
        },
      }),
    );
  }

  // Position, and links to other pages.
  pager(items, listing = null) {
    const count = this.matching(items).length;
    const first = count ? this.page * ROWS + 1 : 0;
    const last = Math.min(count, (this.page + 1) * ROWS);
    const turn = (step) => () => {
      this.page += step;
      this.app.show();
      this.app.moved();
    };
    const more = listing && listing.loaded && !listing.complete;
    return h(
      "nav", { class: "pager", "aria-label": "Pages" },
      h("p", { role: "status" }, `${number(first)}–${number(last)} of ${number(count)}`,
        items.length !== count ? ` (of ${number(items.length)} in all)` : null,
        listing && !listing.loaded ? ", loading…" : null),
      count > ROWS ? button("Previous", { busy: this.page === 0, onclick: turn(-1) }) : null,
      count > ROWS ? button("Next", { busy: last >= count, onclick: turn(1) }) : null,
      more ? button("Load more", { onclick: () => { listing.extend(); this.app.again(); } }) : null,
    );
  }
}

// Button for older runs.
export function olderRuns(app, runs) {
  if (runs.complete) return h("p", { class: "note" }, `${plural(runs.items.length, "run")} in all.`);
  return h(
    "p", { class: "more" },
    button("Load earlier runs", {
      busy: app.isBusy("older"), onclick: () => app.act("older", () => runs.more(), null),
    }),
  );
}
