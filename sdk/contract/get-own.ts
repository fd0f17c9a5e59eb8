/** Returns an object's own value of a name; undefined for one that every object inherits, such as `constructor`. */
export const getOwn = <T extends object>(table: T, name: string): T[keyof T] | undefined =>
  Object.hasOwn(table, name) ? table[name as keyof T] : undefined;
