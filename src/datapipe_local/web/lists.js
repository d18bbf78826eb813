// Lists of the service, loaded page by page and kept between polls.

const PAGE = 100;
const PAGES_AT_ONCE = 20;
const REQUESTS_AT_ONCE = 4;
const AGE_OF_LONG_LISTS = 30_000;

// A whole list, in pages of 100. More than 2,000 entries are loaded only on request.
export class Listing {
  constructor(client, path, query = {}) {
    Object.assign(this, { client, path, query, items: [], loaded: false, complete: false });
    this.pages = PAGES_AT_ONCE;
    this.at = -Infinity;
  }

  // Reload; a list of many pages less frequently.
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

  // Load more at the next poll.
  extend() {
    this.pages += PAGES_AT_ONCE;
    this.at = -Infinity;
  }
}

// Runs, newest first: each poll loads the newest page; older pages are loaded on request.
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
    // No common run: runs in between may be missing.
    const meets = this.loaded && older.length < this.items.length;
    const known = meets ? older.filter((run) => began(run) <= began(page.items.at(-1))) : [];
    if (known.length) {
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

// Call a function for each item, a few at a time. Items that were deleted in the meantime are skipped: the next list
// shows that.
export async function forEachExisting(items, load) {
  const ahead = [...items];
  const next = async () => {
    while (ahead.length) {
      try {
        await load(ahead.pop());
      } catch (error) {
        if (error.status !== 404) throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: REQUESTS_AT_ONCE }, next));
}

function began(run) {
  return run.due_at || run.started_at || "";
}
