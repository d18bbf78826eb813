// HTTP client of the service, which uses only its interface.

const LONGEST = 30_000;

// The API key is wrong.
export class WrongKey extends Error {}
// The service does not respond.
export class Unreachable extends Error {}
// The service refused the request, or its response is unreadable.
export class Refused extends Error {
  constructor(status, message, code) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export class Client {
  constructor(key) {
    this.key = key;
  }

  get(path, query, signal) {
    return this.send("GET", path, query, undefined, signal);
  }

  post(path, query, body) {
    return this.send("POST", path, query, body);
  }

  async send(method, path, query, body, signal) {
    const answer = await this.fetched(method, address(path, query), body, signal);
    let content = null;
    try {
      const text = await answer.text();
      content = text === "" ? null : JSON.parse(text);
    } catch (error) {
      if (signal && signal.aborted) throw error;
      if (answer.ok) throw new Refused(answer.status, "The response of the service is unreadable.");
    }
    if (answer.status === 401) throw new WrongKey("The API key is wrong.");
    if (!answer.ok) {
      const message = content && typeof content.message === "string" ? content.message : `The service responded with status ${answer.status}.`;
      throw new Refused(answer.status, message, content && content.error_code);
    }
    return content;
  }

  async fetched(method, url, body, signal) {
    const headers = { "x-api-key": this.key, accept: "application/json" };
    if (body !== undefined) headers["content-type"] = "application/json";
    const limit = AbortSignal.timeout(LONGEST);
    try {
      return await fetch(url, {
        method,
        headers,
        body: body === undefined ? undefined : JSON.stringify(body),
        signal: signal ? either(signal, limit) : limit,
        cache: "no-store",
        credentials: "omit",
        redirect: "error",
      });
    } catch (error) {
      if (signal && signal.aborted) throw error;
      throw new Unreachable("The service does not respond.");
    }
  }

  // A validated page of a list.
  async page(path, query, signal) {
    const page = await this.get(path, query, signal);
    if (!page || !Array.isArray(page.data)) {
      throw new Refused(200, "The response of the service is not a list.");
    }
    return { items: page.data, next: page.has_more ? page.next_cursor : null };
  }
}

// A path segment.
export function part(id) {
  return encodeURIComponent(id);
}

function address(path, query) {
  const given = Object.entries(query || {}).filter(([, value]) => value !== undefined && value !== null);
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

function either(one, other) {
  const both = new AbortController();
  for (const signal of [one, other]) {
    if (signal.aborted) both.abort();
    else signal.addEventListener("abort", () => both.abort(), { once: true });
  }
  return both.signal;
}
