/** Loads code that is a chunk of its own, such as that of a page. */
import { fetchOrExplain } from '../rest/user-fetch.ts';

/** A file of code is missing. Often a new version of the service has replaced it: a document that is loaded again names the new one. */
export class MissingCodeError extends Error {
  constructor(cause: unknown) {
    super('A part of this page could not be loaded. The service may have a new version: reload the page.', { cause });
  }
}

/**
 * The router reloads the document when a chunk cannot be loaded: a new version may have replaced it. A browser does not
 * request a chunk again that has failed, so a reload is also right after an outage, but not while it lasts.
 *
 * @throws UnreachableError when the service is unreachable: the router then shows the error and keeps the document
 */
export async function loadChunk<Module>(load: () => Promise<Module>): Promise<Module> {
  try {
    return await load();
  } catch (error) {
    await checkService();
    throw error;
  }
}

/**
 * Loads code that is not a page, for which the router does nothing. The document is reloaded once for it; the next document that
 * fails leaves that to the user.
 *
 * @param name under which the tab keeps that it reloaded
 * @throws UnreachableError when the service is unreachable
 */
export async function loadPart<Module>(load: () => Promise<Module>, name: string): Promise<Module> {
  const key = `bulkhead.reloaded.${name}`;
  try {
    const module = await load();
    sessionStorage.removeItem(key);
    return module;
  } catch (cause) {
    await checkService();
    const thisDocument = String(performance.timeOrigin);
    const reloaded = sessionStorage.getItem(key);
    // If it was this document, its user did not let it reload, to keep what is typed.
    if (reloaded === null || reloaded === thisDocument) {
      sessionStorage.setItem(key, thisDocument);
      location.reload();
    } else sessionStorage.removeItem(key);
    throw new MissingCodeError(cause);
  }
}

/** @throws if the service is unreachable */
async function checkService(): Promise<void> {
  // A proxy may answer for a service that is down.
  const response = await fetchOrExplain('/', { cache: 'no-store', headers: { accept: 'text/html' } });
  if (!response.ok) throw new Error(`The service responded with status ${response.status}.`);
}
