// The lock program for Node: one request per line on stdin, one answer per line on stdout, in the order of the requests
// (docs/client-protocol.md). It reports its own errors on stderr and in "error", and goes on.

import { createInterface } from "node:readline";
import { NodeRedlock } from "./node_redlock.js";
import { NodeRedlock4 } from "./node_redlock_v4.js";

/** Opens a lock: `open(request)` returns an object with a method for each op; every method returns {ok}, {fail} or
 * {info}. */
const LOCKS = {
  "node-redlock": async (request) => {
    const { default: Redlock } = await import("redlock");
    return ("lockWithOptions" in Redlock.prototype ? NodeRedlock4 : NodeRedlock).open(Redlock, request);
  },
  "sesamecare-redlock": async (request) => {
    const { Redlock } = await import("@sesamecare-oss/redlock");
    return NodeRedlock.open(Redlock, request);
  },
};

const OPS = new Set(["acquire", "release", "still_valid", "extend"]);

let opened = null;

async function answer(request) {
  const { op, lock } = request;
  if (op === "close") return { ok: null };
  if (op === "open") {
    if (!Object.hasOwn(LOCKS, lock)) throw new Error(`unknown lock '${lock}', expected ${Object.keys(LOCKS)}`);
    if (opened) throw new Error("open comes once");
    opened = await LOCKS[lock](request);
    return { ok: null };
  }
  if (!OPS.has(op)) throw new Error(`unknown op '${op}'`);
  if (!opened) throw new Error(`${op} comes after open`);
  return opened[op](request);
}

async function serve(line) {
  let id = null;
  let op = null;
  let outcome;
  try {
    const request = JSON.parse(line);
    ({ id = null, op } = request);
    outcome = await answer(request);
  } catch (error) {
    console.error(error);
    outcome = { error: String(error?.message ?? error) };
  }
  process.stdout.write(`${JSON.stringify({ id, ...outcome })}\n`);
  if (op === "close") process.exit(0);
}

// Requests are handled one after the other, even if the next arrives while one is in progress.
for await (const line of createInterface({ input: process.stdin })) {
  if (line.trim()) await serve(line);
}
process.exit(0); // pending requests would keep the program alive
