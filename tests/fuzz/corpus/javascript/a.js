import { rope } from "./rope.js";

/** A winch. */
export default class Winch extends Base {
  #length = 3;
  static async *pull(by = 1, ...rest) {
    for await (const x of rest) yield `${x?.name ?? "none"}: ${by}`;
  }
}
export const find = ({ name, parts: [first] }) => /^r[a-z]+$/i.test(name) && <b id="x">{first}</b>;
function old(a, b) { return a < b ? { a, ...b } : [a, , b]; }
