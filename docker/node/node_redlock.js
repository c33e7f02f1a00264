// The npm library redlock (major version 5) and its forks, unmodified, on one ioredis client for each server. It waits for a busy lock by its own
// retries: acquire gets retryCount and retryDelay, as in its documentation. Release and extend keep its defaults.

import { Tally, connect, tallied } from "./servers.js";

/** The library's default; the number of tries is computed from it and the waiting time. */
export const RETRY_DELAY_MS = 200;
const MOST = 0.9;
/** How long a call may take beyond its waiting time, because the library never settles some promises. */
const PATIENCE_MS = 4000;
const UNSETTLED = Symbol("unsettled");
const UNANSWERED = "the library has not settled its promise";

const KINDS = ["redis-independent", "redis-single"];

/** Tally of an acquire, or of an extend of redlock 4: when it fails it sends the release script, and a released key does
 * not count as set. */
class TakenBackTally extends Tally {
  busy = false;
  #ttl;

  constructor(ttlMs) {
    super();
    this.#ttl = String(ttlMs);
  }

  note(server, args, reply, lost) {
    const takesBack = args.at(-1) !== this.#ttl; // the release script alone does not end with the duration
    if (!takesBack) {
      super.note(server, args, reply, lost);
      this.busy ||= reply === 0;
    } else if (reply !== null) {
      this.done.delete(server); // a connection's requests are executed in order, even when they are repeated
      this.open.delete(server);
    }
  }
}

export class NodeRedlock {
  #ttlMs;
  #quorum;
  #held = new Map();

  /** `Redlock` is the class of the library. */
  constructor(Redlock, servers, ttlMs) {
    this.redlock = new Redlock(servers);
    this.#ttlMs = ttlMs;
    this.#quorum = Math.floor(servers.length / 2) + 1;
  }

  static async open(Redlock, { lock, kind, addresses, ttl, options }) {
    if (!KINDS.includes(kind)) throw new Error(`${lock} runs on ${KINDS.join(" and ")}, got '${kind}'`);
    const commandTimeoutMs = Math.round((options?.command_timeout ?? 1.5) * 1000);
    return new this(Redlock, await connect(addresses, commandTimeoutMs), Math.round(ttl * 1000));
  }

  /** Starts as many tries as are given, one more than `retryCount`. */
  tried(key, ttlMs, retryCount) {
    return this.redlock.acquire([key], ttlMs, { retryCount, retryDelay: RETRY_DELAY_MS });
  }

  prolonged(lock, ttlMs) {
    return lock.extend(ttlMs);
  }

  released(lock) {
    return lock.release();
  }

  async acquire({ key, timeout }) {
    const tally = new TakenBackTally(this.#ttlMs);
    const asked = tallied(tally, () => this.#asked(key, timeout * 1000));
    try {
      const lock = await patiently(asked, timeout * 1000 + PATIENCE_MS);
      if (lock === UNSETTLED) return this.#forget(asked);
      this.#held.set(key, lock);
      return { ok: { valid_for: (lock.expiration - Date.now()) / 1000 } };
    } catch (error) {
      if (tally.possible >= this.#quorum) return { info: `${error.message} The key may be set on ${tally.possible} servers.` };
      return { fail: tally.busy ? "busy" : error.message };
    }
  }

  async release({ key }) {
    const lock = this.#held.get(key);
    if (!lock) return { fail: "not held" };
    const tally = new Tally();
    const failed = await this.#failure(tally, () => this.released(lock));
    // Each try is counted separately, and does not find what an earlier one deleted: together they may be a majority.
    const outcome = !failed || tally.done.size >= this.#quorum ? { ok: null } : failed;
    if (!outcome.info) this.#held.delete(key);
    return outcome;
  }

  async extend({ key }) {
    const lock = this.#held.get(key);
    if (!lock) return { ok: false };
    const prolong = async () => this.#held.set(key, await this.prolonged(lock, this.#ttlMs));
    const failed = await this.#failure(new TakenBackTally(this.#ttlMs), prolong);
    return failed?.info ? failed : { ok: !failed };
  }

  still_valid({ key }) {
    return { ok: (this.#held.get(key)?.expiration ?? 0) > Date.now() };
  }

  /** Waits for the lock. The library counts tries, not time, and its delays are random. So most of the time is used for
   * as many tries as fit into it, and the rest for further tries. */
  async #asked(key, timeoutMs) {
    const until = performance.now() + timeoutMs;
    for (;;) {
      const left = Math.max(0, until - performance.now());
      const retryCount = left && Math.max(1, Math.floor((MOST * left) / RETRY_DELAY_MS));
      try {
        return await this.tried(key, this.#ttlMs, retryCount);
      } catch (error) {
        if (performance.now() >= until) throw error;
      }
    }
  }

  /** Undefined if the call succeeded, else its outcome: fail (it did not happen) or info (unknown). */
  async #failure(tally, call) {
    try {
      const value = await patiently(tallied(tally, call), PATIENCE_MS);
      return value === UNSETTLED ? { info: UNANSWERED } : undefined;
    } catch (error) {
      return { [tally.possible >= this.#quorum ? "info" : "fail"]: error.message };
    }
  }

  /** Releases the lock if this abandoned acquire still gets it. */
  #forget(asked) {
    asked.then((lock) => this.released(lock)).catch(() => {});
    return { info: UNANSWERED };
  }
}

async function patiently(promise, ms) {
  let timer;
  const over = new Promise((resolve) => {
    timer = setTimeout(resolve, ms, UNSETTLED);
  });
  try {
    return await Promise.race([promise, over]);
  } finally {
    clearTimeout(timer);
  }
}
