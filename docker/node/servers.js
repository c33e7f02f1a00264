// ioredis clients that record the outcome of each request, because the error of a lock's method does not tell.

import { AsyncLocalStorage } from "node:async_hooks";
import { Redis } from "ioredis";

const CONNECT_MS = 2000;
const SCRIPTS = new Set(["eval", "evalsha"]);

/** Outcomes on all servers of one call of a lock's method, over all its tries. */
export class Tally {
  /** Servers that confirmed execution. */
  done = new Set();
  /** Servers that may have executed it, or may still do so. */
  open = new Set();

  /** `reply` is the server's number, or null for no answer. `lost`: the connection broke before the answer came, and
   * ioredis repeated the request, so the answer may be to the repetition. */
  note(server, _args, reply, lost) {
    if (reply === 1) this.done.add(server);
    else if (reply === null || lost) this.open.add(server);
  }

  /** Number of servers that executed it, or may have. */
  get possible() {
    return new Set([...this.done, ...this.open]).size;
  }
}

const calls = new AsyncLocalStorage();

/** Runs the call and counts all its requests in the tally. */
export function tallied(tally, call) {
  return calls.run(tally, call);
}

class Server extends Redis {
  losses = 0;

  constructor(options) {
    super(options);
    this.on("close", () => this.losses++);
    this.on("error", () => {}); // it reconnects by itself, and requests report their own errors
  }

  /** Libraries send scripts by eval and evalsha, or by commands that they define. A request that waits for a connection
   * comes here once more, outside of the call. */
  sendCommand(command, stream) {
    const tally = calls.getStore();
    if (tally && SCRIPTS.has(command.name)) this.#note(tally, command);
    return super.sendCommand(command, stream);
  }

  async #note(tally, command) {
    const before = this.losses;
    const note = (reply) => tally.note(this, command.args.map(String), reply, this.losses > before);
    try {
      note(await command.promise);
    } catch (error) {
      if (error.name !== "ReplyError") note(null); // a ReplyError means that the server did nothing
    }
  }
}

/** Opens a client for each address; waits a limited time for connections. Others connect when their server answers. */
export async function connect(addresses, commandTimeoutMs) {
  const servers = addresses.map(([host, port]) => new Server({ host, port, commandTimeout: commandTimeoutMs }));
  const ready = servers.map((server) => new Promise((resolve) => server.once("ready", resolve)));
  await Promise.race([Promise.all(ready), new Promise((resolve) => setTimeout(resolve, CONNECT_MS))]);
  return servers;
}
