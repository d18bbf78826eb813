// Lists of the service, page by page, kept between looks.

const PAGE = 100;
const PAGES_AT_ONCE = 20;
const AGE_OF_LONG_LISTS = 30_000;

// A whole list, walked in pages of 100; beyond 2,000 entries only when somebody asks for more.
export class Listing {
  constructor(client, path, query = {}) {
    Object.assign(this, { client, path, query, items: [], loaded: false, complete: false });
    this.pages = PAGES_AT_ONCE;
    this.at = -Infinity;
  }

  // Look again; a list of many pages only now and then.
  async load(signal, shown = () => {}) {
    const isLong = this.items.length > PAGE;
    if (this.loaded && isLong && performance.now() - this.at < AGE_OF_LONG_LISTS) return;
    const items = [];
    let next = null;
    for (let page = 0; page < this.pages; page++) {
      const got = await this.client.page(
        this.path, { ...this.query, limit: PAGE, starting_after: next ?? undefined }, signal,
      );
      items.push(...got.items);
      next = got.next;
      if (!this.loaded) {
        this.items = [...items];
        shown();
      }
      if (next === null) break;
    }
    this.items = items;
    this.complete = next === null;
    this.loaded = true;
    this.at = performance.now();
  }

  // Have the next look go further.
  extend() {
    this.pages += PAGES_AT_ONCE;
    this.at = -Infinity;
  }
}

// Runs, the newest first: each look takes the newest page; older ones come when somebody asks for them.
export class Runs {
  constructor(client, path, query) {
    Object.assign(this, { client, path, query, items: [], loaded: false, next: null });
  }

  get complete() {
    return this.next === null;
  }

  async load(signal) {
    const page = await this.client.page(this.path, { ...this.query, limit: 50 }, signal);
    const fresh = new Set(page.items.map((run) => run.id));
    const older = this.items.filter((run) => !fresh.has(run.id));
    // Nothing in common: there may be others in between.
    const meets = this.loaded && older.length < this.items.length;
    const known = older.filter((run) => began(run) <= began(page.items.at(-1)));
    if (meets && known.length) {
      this.items = [...page.items, ...known];
    } else {
      this.items = page.items;
      this.next = page.next;
    }
    this.loaded = true;
  }

  async more(signal) {
    const page = await this.client.page(this.path, { ...this.query, limit: 100, starting_after: this.next }, signal);
    const known = new Set(this.items.map((run) => run.id));
    this.items = [...this.items, ...page.items.filter((run) => !known.has(run.id))];
    this.next = page.next;
  }
}

function began(run) {
  return run.due_at || run.started_at || "";
}
