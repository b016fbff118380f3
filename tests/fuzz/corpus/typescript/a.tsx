import type { Rope } from "./rope";

/** A winch. */
export abstract class Winch<T extends Rope = Rope> implements Pulls<T> {
  private readonly parts: Map<string, T[]> = new Map();
  constructor(protected name?: string) { super(); }
  pull<K extends keyof T>(by: number, key: K): Promise<T[K] | undefined> { return this.parts.get(`${key as string}`)![0]; }
}
interface Pulls<T> { [name: string]: (x: T) => void }
export const View = ({ name }: { name: string }) => <div className="x">{name < "b" && <b>{name}</b>}</div>;
enum Kind { A = 1, B }
