// ioredis clients that remember what became of each request: the error of a lock's method does not tell.

import { AsyncLocalStorage } from "node:async_hooks";
import { Redis } from "ioredis";

const CONNECT_MS = 2000;

/** What the servers did in one call of a lock's method, all its tries together. */
export class Tally {
  /** Servers that answered: done. */
  done = new Set();
  /** Servers that may have done it, or may yet. */
  open = new Set();

  /** `reply` is the server's number, or null: no answer. `lost`: the connection broke before the answer came, and
   * ioredis sent the request once more, so that the answer may be that of the second time. */
  note(server, _args, reply, lost) {
    if (reply === 1) this.done.add(server);
    else if (reply === null || lost) this.open.add(server);
  }

  /** On how many servers it was done, or may be. */
  get possible() {
    return new Set([...this.done, ...this.open]).size;
  }
}

const calls = new AsyncLocalStorage();

/** Runs the call, whose requests are counted in the tally for as long as it makes any. */
export function tallied(tally, call) {
  return calls.run(tally, call);
}

class Server extends Redis {
  losses = 0;

  constructor(options) {
    super(options);
    this.on("close", () => this.losses++);
    this.on("error", () => {}); // it connects again, and requests fail by themselves
  }

  evalsha(...args) {
    return this.#noted(args, super.evalsha(...args));
  }

  eval(...args) {
    return this.#noted(args, super.eval(...args));
  }

  async #noted(args, answer) {
    const tally = calls.getStore();
    const before = this.losses;
    const note = (reply) => tally?.note(this, args, reply, this.losses > before);
    try {
      const reply = await answer;
      note(reply);
      return reply;
    } catch (error) {
      if (error.name !== "ReplyError") note(null); // that would be the server's own word that it did nothing
      throw error;
    }
  }
}

/** A client for each address, connected unless a server is silent or away: those connect when they can. */
export async function connect(addresses, commandTimeoutMs) {
  const servers = addresses.map(([host, port]) => new Server({ host, port, commandTimeout: commandTimeoutMs }));
  const ready = servers.map((server) => new Promise((resolve) => server.once("ready", resolve)));
  await Promise.race([Promise.all(ready), new Promise((resolve) => setTimeout(resolve, CONNECT_MS))]);
  return servers;
}
