// The npm library redlock in its major version 4, whose methods and settings have other names. It asks all servers, waits
// for each reply, and takes a lost try back before the next one.

import { NodeRedlock, RETRY_DELAY_MS } from "./node_redlock.js";

export class NodeRedlock4 extends NodeRedlock {
  #Redlock;
  #servers;

  constructor(Redlock, servers, ttlMs) {
    super(Redlock, servers, ttlMs);
    this.#Redlock = Redlock;
    this.#servers = servers;
  }

  /** Of the settings only those of the object may be zero. */
  tried(key, ttlMs, retryCount) {
    const settings = { retryCount, retryDelay: RETRY_DELAY_MS };
    return new this.#Redlock(this.#servers, settings).lock(key, ttlMs);
  }

  prolonged(lock, ttlMs) {
    return this.redlock.extend(lock, ttlMs);
  }

  released(lock) {
    return lock.unlock();
  }
}
