/** Ids of requests whose caller gives none. */

/**
 * Adds a random id to fields without one. `{ id: random, ...fields }` would not do: an `id` of undefined replaces the random one, JSON
 * leaves it out, and then each attempt at the call counts as another request.
 */
export const addId = <Fields extends { readonly id?: string | undefined }>(fields: Fields) => ({
  ...fields,
  id: fields.id ?? crypto.randomUUID(),
});
