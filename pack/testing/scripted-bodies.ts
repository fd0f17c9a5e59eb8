/** Bodies that a test gives in pieces: `fetch` reads them as they come, `host.http.fetch` as a whole. */
import type { StreamedAnswer } from '../../sdk/testing/testing.ts';
import { HostCallRefusal } from '../../supervisor/children/child-errors.ts';
import type { BodyPart } from '../../supervisor/host/http/body-streams.ts';

type Piece = string | Uint8Array;

export class ScriptedBodies {
  readonly #open = new Map<string, AsyncIterator<Piece>>();

  /** Keeps the body of a streamed answer. @returns the answer as the service gives it */
  async accept(answer: unknown, bodyId: string | null): Promise<unknown> {
    if (!isStreamed(answer)) return answer;
    const { body, ...head } = answer;
    const pieces = body[Symbol.asyncIterator]();
    if (bodyId === null) {
      const bodyBytes = await collect(pieces);
      return { ...head, bodyBytes, bodyText: bodyBytes.toString() };
    }
    this.#open.set(bodyId, pieces);
    return { ...head, bodyBytes: new Uint8Array(), bodyText: '' };
  }

  has(bodyId: string): boolean {
    return this.#open.has(bodyId);
  }

  /** @throws HostCallRefusal with what the test's body throws */
  async read(bodyId: string): Promise<BodyPart> {
    const pieces = this.#open.get(bodyId);
    if (!pieces) throw new HostCallRefusal('failed', 'fetch: the body is not open any more');
    try {
      const { done, value } = await pieces.next();
      if (!done) return { bytes: Buffer.from(value), isEnd: false };
      this.#open.delete(bodyId);
      return { bytes: new Uint8Array(), isEnd: true };
    } catch (error) {
      this.#open.delete(bodyId);
      throw new HostCallRefusal('failed', `fetch: ${(error as Error).message}`);
    }
  }

  async close(bodyId: string): Promise<void> {
    const pieces = this.#open.get(bodyId);
    this.#open.delete(bodyId);
    await pieces?.return?.();
  }
}

const isStreamed = (answer: unknown): answer is StreamedAnswer =>
  typeof answer === 'object' && answer !== null && 'body' in answer;

async function collect(pieces: AsyncIterator<Piece>): Promise<Buffer> {
  const parts: Buffer[] = [];
  for (let next = await pieces.next(); !next.done; next = await pieces.next()) parts.push(Buffer.from(next.value));
  return Buffer.concat(parts);
}
