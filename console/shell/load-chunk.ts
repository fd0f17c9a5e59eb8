/** Loads code that is a chunk of its own, such as that of a page. */
import { fetchOrExplain } from '../rest/user-fetch.ts';

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
    // A proxy may answer for a service that is down.
    const response = await fetchOrExplain('/', { cache: 'no-store', headers: { accept: 'text/html' } });
    if (!response.ok) throw new Error(`The service responded with status ${response.status}.`);
    throw error;
  }
}
