/** Creates an id of 128 random bits. `crypto.randomUUID` exists only on pages that came by HTTPS or from localhost. */
export const createRandomId = (): string => crypto.getRandomValues(new Uint32Array(4)).join('-');
