// The page: API key, navigation and polling.

import { Client, Unreachable, WrongKey } from "./api.js";
import { h, patch } from "./dom.js";
import { ZONE } from "./format.js";
import { empty, heading, link } from "./widgets.js";
import { journal } from "./views/journal.js";
import { orchestration, orchestrations } from "./views/orchestrations.js";
import { overview } from "./views/overview.js";
import { queryPreview } from "./views/query_previews.js";
import { reverseSync, reverseSyncs } from "./views/reverse.js";
import { stream, streams } from "./views/streams.js";
import { connections, sync, syncs } from "./views/syncs.js";
import { transform, transforms } from "./views/transforms.js";

const KEY = "datapipe-local-key";
const SOON = 300;
const SHORTEST = 1_000;
const LONGEST = 15_000;
const LONGEST_AWAY = 10_000;
const NOTICE = 8_000;

const PLACES = [
  { path: "/", title: "Overview", view: overview, icon: "M3 11l9-8 9 8v9a1 1 0 0 1-1 1h-5v-6H9v6H4a1 1 0 0 1-1-1z" },
  { path: "/connections", title: "Connections", view: connections, icon: "M9 3v5M15 3v5M6 8h12v3a6 6 0 0 1-12 0zM12 17v4" },
  { path: "/syncs", title: "ELT syncs", view: syncs, one: sync, icon: "M4 9a8 8 0 0 1 14-3l2 2M20 15a8 8 0 0 1-14 3l-2-2M20 3v5h-5M4 21v-5h5" },
  { path: "/streams", title: "Streams", view: streams, one: stream, icon: "M3 7c3-3 6 3 9 0s6-3 9 0M3 12c3-3 6 3 9 0s6-3 9 0M3 17c3-3 6 3 9 0s6-3 9 0" },
  { path: "/transforms", title: "Transforms", view: transforms, one: transform, icon: "M6 4v4a4 4 0 0 0 4 4h4a4 4 0 0 1 4 4v4M6 20v-4M18 4v4M4 4h4M16 20h4M4 20h4M16 4h4" },
  { path: "/orchestrations", title: "Orchestrations", view: orchestrations, one: orchestration, icon: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM12 7v5l3 3" },
  { path: "/reverse", title: "Reverse ETL", view: reverseSyncs, one: reverseSync, icon: "M4 12h14M13 6l6 6-6 6M4 5v14" },
];
// Pages without an entry in the navigation.
const QUERY_PREVIEWS = { path: "/query_previews", title: "Query previews", one: queryPreview };
// Names of the interface, for links from other programs, such as those of Airflow's tasks.
const COLLECTIONS = { elt_syncs: "syncs", elt_streams: "streams", reverse_etl_syncs: "reverse" };
const JOURNAL = { path: "/journal", title: "Journal", view: journal, icon: "M6 3h11a2 2 0 0 1 2 2v16H7a2 2 0 0 1-2-2V4a1 1 0 0 1 1-1zM9 8h6M9 12h6M5 18a2 2 0 0 1 2-2h12" };

class App {
  constructor(root) {
    this.root = root;
    this.places = document.documentElement.dataset.control === "on" ? [...PLACES, JOURNAL] : PLACES;
    this.client = null;
    this.view = null;
    this.problem = null;
    this.notices = [];
    this.busy = new Set();
    this.timer = 0;
    this.poll = null;
    this.pause = SHORTEST;
    this.failures = 0;
    this.login = { wrong: null, busy: false };
    this.show = this.show.bind(this);
  }

  start() {
    const key = sessionStorage.getItem(KEY);
    if (key) this.client = new Client(key);
    window.addEventListener("hashchange", () => this.client && this.go());
    document.addEventListener("visibilitychange", () => (document.hidden ? this.rest() : this.again()));
    window.addEventListener("online", () => this.again());
    new ResizeObserver(() => this.client && this.show()).observe(this.root);
    if (this.client) this.go();
    else this.show();
  }

  // Width of the content.
  get width() {
    const main = document.getElementById("main");
    if (!main) return 600;
    const style = getComputedStyle(main);
    return Math.floor(main.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight));
  }

  // Show the view of the URL.
  go() {
    this.rest();
    const { place, id, query } = this.where();
    this.place = place;
    this.problem = null;
    this.pause = SHORTEST;
    this.missing = false;
    if (place && id !== null && place.one) this.view = place.one(this, [id], query);
    else if (place && id === null && place.view) this.view = place.view(this, [], query);
    else this.view = { title: "Not found", isGoing: () => false, load: async () => {}, render: () => [heading("Page not found"), link("/", "Back to the overview")] };
    this.show();
    window.scrollTo(0, 0);
    // Screen readers announce the new page.
    const title = document.getElementById("title");
    if (title && this.wasSomewhere) title.focus({ preventScroll: true });
    this.wasSomewhere = true;
    this.showPlace();
    this.again();
  }

  // Scroll the navigation to the link of this page. scrollIntoView() would also move the start of the Tab key there.
  showPlace() {
    const here = this.root.querySelector(".side [aria-current=page]");
    if (!here) return;
    const link = here.getBoundingClientRect();
    const side = here.closest(".side");
    const column = side.getBoundingClientRect();
    side.scrollTop += Math.max(0, link.bottom - column.bottom) + Math.min(0, link.top - column.top);
    const list = here.closest("nav");
    const row = list.getBoundingClientRect();
    list.scrollLeft += link.left + link.width / 2 - row.left - row.width / 2;
  }

  where() {
    const [path, search = ""] = (location.hash.slice(1) || "/").split("?");
    const query = Object.fromEntries(new URLSearchParams(search));
    const [, first = "", ...rest] = path.split("/");
    const place = [...this.places, QUERY_PREVIEWS].find((one) => one.path === `/${COLLECTIONS[first] || first}`);
    let id = rest.length ? rest.join("/") : null;
    try {
      id = id === null ? null : decodeURIComponent(id);
    } catch {
      return { place: undefined, id: null, query };
    }
    return { place, id, query };
  }

  // Keep the state of the view in the URL, for history and reloads.
  moved() {
    if (this.view.query) {
      const [path] = (location.hash.slice(1) || "/").split("?");
      const known = Object.entries(this.view.query()).filter(([, value]) => value);
      history.replaceState(null, "", `#${path}${known.length ? `?${new URLSearchParams(known)}` : ""}`);
    }
    if (this.view.moved) this.view.moved();
  }

  // Poll immediately or after a delay.
  again(delay = 0) {
    if (!this.client) return;
    this.pause = SHORTEST;
    this.after(delay);
  }

  after(delay) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.polled(), delay);
  }

  // Cancel the current and the next poll.
  rest() {
    clearTimeout(this.timer);
    if (this.poll) this.poll.abort();
    this.poll = null;
  }

  async polled() {
    if (document.hidden || !this.client) return;
    if (this.poll) this.poll.abort();
    const poll = new AbortController();
    const view = this.view;
    this.poll = poll;
    const begun = performance.now();
    let delay;
    try {
      await view.load(poll.signal);
      if (poll.signal.aborted) return;
      this.problem = null;
      this.missing = false;
      this.failures = 0;
      // Frequently while something is running, otherwise less and less, and for at most a fifth of the time.
      this.pause = view.isGoing() ? SHORTEST : Math.min(LONGEST, this.pause * 1.5);
      delay = Math.max(this.pause, 4 * (performance.now() - begun));
    } catch (error) {
      if (poll.signal.aborted) return;
      if (error instanceof WrongKey) {
        this.leave("The API key is no longer valid.");
        return;
      }
      this.failures += 1;
      delay = Math.min(LONGEST_AWAY, SOON * 2 ** this.failures);
      this.missing = error.status === 404;
      this.problem = error instanceof Unreachable
        ? "The service does not respond. The page updates as soon as it does."
        : error.status ? error.message : "The page cannot read the response of the service.";
      if (!error.status && !(error instanceof Unreachable)) console.warn(error);
    }
    this.poll = null;
    this.show();
    this.after(delay);
  }

  isBusy(key) {
    return this.busy.has(key);
  }

  // Send a request, and show its outcome.
  async act(key, request, message) {
    if (this.busy.has(key)) return;
    this.busy.add(key);
    this.show();
    try {
      await request();
      if (message) this.notice("good", message);
    } catch (error) {
      if (error instanceof WrongKey) {
        this.leave("The API key is no longer valid.");
        return;
      }
      this.notice("bad", error.message);
    } finally {
      this.busy.delete(key);
    }
    this.show();
    this.again(SOON);
  }

  notice(kind, text) {
    const one = { kind, text, id: (this.numbered = (this.numbered || 0) + 1) };
    this.notices = [...this.notices, one].slice(-4);
    if (kind === "good") setTimeout(() => this.dismiss(one), NOTICE);
  }

  dismiss(one) {
    this.notices = this.notices.filter((other) => other !== one);
    this.show();
  }

  async enter(key) {
    if (this.login.busy) return;
    this.login = { wrong: null, busy: true };
    this.show();
    const client = new Client(key);
    try {
      // An API key fits into a header.
      if (!/^[\x21-\x7e]+$/.test(key)) throw new WrongKey();
      await client.get("/connections", { limit: 1 });
    } catch (error) {
      const wrong = error instanceof WrongKey
        ? "This key is wrong."
        : error.message;
      this.login = { wrong, busy: false };
      this.show();
      document.getElementById("key").focus();
      return;
    }
    sessionStorage.setItem(KEY, key);
    this.login = { wrong: null, busy: false };
    this.client = client;
    this.wasSomewhere = false;
    this.go();
  }

  leave(why = null) {
    this.rest();
    sessionStorage.removeItem(KEY);
    this.client = null;
    this.notices = [];
    this.login = { wrong: why, busy: false };
    this.show();
  }

  show() {
    // A removed element fires blur during its removal, so render again afterwards.
    this.stale = true;
    if (this.showing) return;
    this.showing = true;
    try {
      while (this.stale) {
        this.stale = false;
        document.title = `${this.client ? this.view.title : "Sign in"} · datapipe-local`;
        patch(this.root, this.client ? this.page() : this.door());
      }
    } finally {
      this.showing = false;
    }
  }

  door() {
    const { wrong, busy } = this.login;
    return [h("main", { class: "door", key: "door" }, h(
      "form",
      {
        novalidate: true, autocomplete: "off",
        onsubmit: (event) => {
          event.preventDefault();
          this.enter(document.getElementById("key").value.trim());
        },
      },
      mark(),
      h("h1", null, "datapipe-local"),
      h("p", { class: "note" }, "State of the local service."),
      h("label", { for: "key" }, "API key"),
      h("input", {
        id: "key", type: "password", name: "key", autocomplete: "off", spellcheck: "false", autofocus: true,
        "aria-invalid": wrong ? "true" : null, "aria-describedby": wrong ? "wrong hint" : "hint",
      }),
      h("p", { id: "hint", class: "note" }, "The key is in the file ", h("code", null, "api_key"), " of the home. This tab keeps the key until it is closed."),
      h("p", { id: "wrong", class: "wrong", role: "alert" }, wrong),
      h("button", { type: "submit", class: "main", "aria-disabled": busy ? "true" : null }, busy ? "One moment…" : "Sign in"),
    ))];
  }

  page() {
    return [
      h("a", { class: "skip", href: "#main", key: "skip", onclick: (event) => {
        event.preventDefault();
        document.getElementById("main").focus();
      } }, "Skip to the content"),
      h("div", { class: "side", key: "side" },
        link("/", [mark(), h("span", null, "datapipe-local")], { class: "brand" }),
        h("nav", { "aria-label": "Main" }, h("ul", null, this.places.map((place) => h("li", { key: place.path }, link(
          place.path, [icon(place.icon), place.title], { "aria-current": place === this.place ? "page" : null },
        ))))),
        h("div", { class: "foot" },
          h("p", null, "Times in ", h("span", { class: "zone" }, ZONE)),
          h("button", { type: "button", onclick: () => this.leave() }, "Sign out"))),
      h("main", { id: "main", tabindex: "-1", key: "main" },
        h("div", { role: "alert", class: "banner-place", key: "banner" }, this.problem && !this.missing ? h("p", { class: "banner" }, this.problem) : null),
        h("div", { class: "view", key: location.hash.split("?")[0] || "#/" }, this.content())),
      h("div", { class: "notices", role: "status", "aria-live": "polite", key: "notices" }, this.notices.map((one) => h(
        "p", { class: one.kind, key: one.id }, h("span", null, one.text),
        h("button", { type: "button", "aria-label": "Dismiss", onclick: () => this.dismiss(one) }, "×"),
      ))),
    ];
  }

  content() {
    if (this.missing) return [heading("Not found"), empty(this.problem, "It may have been deleted.")];
    try {
      return this.view.render();
    } catch (error) {
      console.warn(error);
      return [heading(this.view.title), empty("The page cannot read the response of the service.")];
    }
  }
}

function icon(path) {
  return h("svg", { class: "icon", viewBox: "0 0 24 24", width: 20, height: 20, "aria-hidden": "true" }, h("path", { d: path }));
}

function mark() {
  return h("img", { class: "mark", src: "/web/icon.svg", alt: "", width: 32, height: 32 });
}

new App(document.getElementById("app")).start();
