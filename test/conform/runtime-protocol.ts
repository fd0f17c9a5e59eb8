/** The runtime's end of the protocol of `bulkhead conform-runtime`: lines of JSON on standard input and output. */
import { createInterface } from 'node:readline';
import type { AdapterOptions } from '../../sdk/adapters/judged-conversation.ts';
import { connect, type Session, type SessionClient, type Trigger } from '../../sdk/session/session.ts';

export interface Told {
  readonly session: string;
  readonly id: string;
  readonly from: string;
  readonly text: string;
  readonly trigger: Trigger;
}
export interface Said {
  readonly role: 'user' | 'assistant';
  readonly content: string;
}
export interface Exchange {
  readonly told: Told;
  readonly session: Session;
  /** The conversation with the new message at its end. */
  readonly messages: readonly Said[];
  readonly signal: AbortSignal;
  show(text: string): void;
}

const { BULKHEAD_URL = '', BULKHEAD_TOKEN = '', BULKHEAD_RUNTIME = '' } = process.env;
const { MODEL_URL = '', MODEL = '', BULKHEAD_COMPACT_AFTER = '40' } = process.env;

export const SYSTEM = 'You help in a bakery.';
export const model = { url: MODEL_URL, name: MODEL };
export const isStreamed: boolean = process.argv.includes('streamed');
/** The options of an adapter for one message. */
export const readOptions = ({ told }: Exchange): AdapterOptions => ({
  messageId: told.id,
  from: told.from,
  trigger: told.trigger,
  compactAfter: Number(BULKHEAD_COMPACT_AFTER),
});

const client: SessionClient = connect({ url: BULKHEAD_URL, token: BULKHEAD_TOKEN, runtime: BULKHEAD_RUNTIME });

/** Answers messages until the input ends. A conversation is the messages that were answered. */
export async function answerMessages(answer: (exchange: Exchange) => Promise<void>): Promise<void> {
  const sessions = new Map<string, { session: Session; messages: Said[] }>();
  const running = new Map<string, AbortController>();
  const write = (line: object): void => void process.stdout.write(`${JSON.stringify(line)}\n`);
  const handle = async (told: Told): Promise<void> => {
    const { id, text } = told;
    // A message can arrive twice at once.
    if (running.has(id)) return;
    const known = sessions.get(told.session) ?? { session: client.open(told.session), messages: [] };
    sessions.set(told.session, known);
    const stop = new AbortController();
    running.set(id, stop);
    let shown = '';
    const show = (piece: string): void => {
      if (piece === '' || stop.signal.aborted) return;
      shown += piece;
      write({ id, text: piece });
    };
    const said: Said = { role: 'user', content: text };
    const messages = [...known.messages, said];
    try {
      await answer({ told, session: known.session, messages, signal: stop.signal, show });
      known.messages = [...messages, { role: 'assistant', content: shown }];
      write({ id, end: 'done' });
    } catch (error) {
      write({ id, end: 'failed', reason: (error as Error).message });
    } finally {
      running.delete(id);
    }
  };
  for await (const line of createInterface({ input: process.stdin })) {
    const { type, ...told } = JSON.parse(line);
    if (type === 'abort') running.get(told.id)?.abort(new Error('The user stopped the answer.'));
    else void handle(told);
  }
}
