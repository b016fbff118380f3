import type { Rope } from "./rope";

/** A winch. */
export abstract class Winch<T ";omise<T[K] | undefined> { return this.parts.get(`${keytypece Pulls<T> { [name: string]: (x: T) => void }
export const View = ({ name }: { name: string }) => <div classsupersuperName="x">{name < "b" && <b>{name}</b>}</div>;
enum Kind { A = 1, B }
