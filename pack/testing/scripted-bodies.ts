/** The bodies of scripted HTTP answers. Of one in pieces, `fetch` reads them as they come, `host.http.fetch` the whole. */
import { httpAnswer } from '../../sdk/contract/payloads.ts';
import type { StreamedAnswer } from '../../sdk/testing/testing.ts';
import { HostCallRefusal } from '../../supervisor/children/child-errors.ts';
import { readBodyText } from '../../supervisor/host/http/answer-body.ts';
import type { BodyPart } from '../../supervisor/host/http/body-streams.ts';

type Piece = string | Uint8Array;

export class ScriptedBodies {
  readonly #open = new Map<string, AsyncIterator<Piece>>();

  /** Keeps the body of a streamed answer, or reads it whole. @throws what the test's body throws */
  async accept(answer: unknown, bodyId: string | null): Promise<unknown> {
    if (!isStreamed(answer)) return answer;
    const { body, ...head } = answer;
    const pieces = body[Symbol.asyncIterator]();
    if (bodyId === null) return { ...head, bodyBytes: await collect(pieces) };
    this.#open.set(bodyId, pieces);
    return head;
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

const partialAnswer = httpAnswer.partial({ bodyText: true, bodyBytes: true });

/** The answer's `bodyText` and `bodyBytes` differ, or its `body` has no pieces. */
export class WrongBody extends Error {
  override readonly name = 'WrongBody';
}

/**
 * Makes `bodyText` and `bodyBytes` of each other, as the service reads one from the other. An empty one counts as omitted.
 *
 * @returns a malformed answer as it is
 * @throws WrongBody
 */
export function completeAnswer(answer: unknown): unknown {
  const { data } = partialAnswer.safeParse(answer);
  if (!data) return answer;
  if (hasBody(answer))
    throw new WrongBody('body has no pieces: give an async iterable of texts or bytes, or bodyText or bodyBytes');
  const { bodyText = '', bodyBytes: given = new Uint8Array() } = data;
  // As Node and the service write them.
  const headers = Object.fromEntries(Object.entries(data.headers).map(([name, value]) => [name.toLowerCase(), value]));
  const bodyBytes = given.byteLength > 0 ? given : Buffer.from(bodyText);
  const text = readBodyText(bodyBytes, headers);
  if (bodyText !== '' && bodyText !== text) throw new WrongBody(describeDifference(given, text, headers));
  return { ...data, headers, bodyBytes, bodyText: text };
}

function describeDifference(given: Uint8Array, text: string, headers: Readonly<Record<string, string>>): string {
  const type = headers['content-type'] ?? 'text/plain';
  if (text === '') return `bodyText is empty for the content-type ${type}: give bodyBytes`;
  if (given.byteLength > 0) return 'bodyText is not the text of bodyBytes: give one of them';
  return `bodyText cannot be written in the content-type ${type}: give bodyBytes`;
}

const hasBody = (answer: unknown): answer is { readonly body: unknown } =>
  typeof answer === 'object' && answer !== null && 'body' in answer && answer.body !== undefined;

/** A test in JavaScript may give other bodies. */
const isStreamed = (answer: unknown): answer is StreamedAnswer =>
  hasBody(answer) && typeof answer.body === 'object' && answer.body !== null && Symbol.asyncIterator in answer.body;

async function collect(pieces: AsyncIterator<Piece>): Promise<Buffer> {
  const parts: Buffer[] = [];
  for (let next = await pieces.next(); !next.done; next = await pieces.next()) parts.push(Buffer.from(next.value));
  return Buffer.concat(parts);
}
