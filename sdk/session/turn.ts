/** One turn of an agent, step by step. Every step can be repeated: a request with the same ids returns the same result. */
import type {
  Attachment,
  Json,
  OpenedTurn,
  OwnCall,
  Prompt,
  PromptRequest,
  ToolResult,
  TurnCall,
  TurnDetail,
  TurnOutput,
  TurnRecord,
} from './api-types.ts';
import { addId } from './default-id.ts';
import { failedResult, type OwnTools } from './own-tools.ts';
import { pause } from './pause.ts';
import { toQueryString } from './query-string.ts';
import { toStorable, toStorableJson } from './storable-text.ts';
import { BulkheadError, type Cancellable, hasCode, type Transport } from './transport.ts';

/** Until the service knows a call that is to be aborted: a request arrives within milliseconds, or when a busy service reads it. */
const ABORT_PAUSE_MIN_MS = 50;
const ABORT_PAUSE_MAX_MS = 2_000;
/**
 * How long an aborted call waits until the service has aborted it, so that its caller may exit then. That takes milliseconds; a
 * service that is away must not keep the caller.
 */
const ABORT_WAIT_MAX_MS = 1_000;

interface OutputOptions extends Cancellable {
  /**
   * Your own id of the output and of its message. Default: made of the turn's id and the text: `output` with the text of an
   * earlier output without an id repeats that one, and `end` does so with the text of the last output.
   */
  readonly id?: string;
  readonly attachments?: readonly Attachment[];
  /** The name of the recipient that plugins see. Default: `user`. */
  readonly target?: string | undefined;
}

/** The path of a call below its turn. */
const callPath = (callId: string): string => `/calls/${encodeURIComponent(callId)}`;

export class Turn {
  readonly id: string;
  /** The turn as `openTurn` returned it; null after `session.turn(id)`. */
  readonly record: OpenedTurn | null;
  readonly #transport: Transport;
  readonly #ownTools: OwnTools;
  readonly #path: string;

  constructor(transport: Transport, ownTools: OwnTools, sessionId: string, id: string, record: OpenedTurn | null) {
    this.#transport = transport;
    this.#ownTools = ownTools;
    this.#path = `/sessions/${encodeURIComponent(sessionId)}/turns/${encodeURIComponent(id)}`;
    this.id = id;
    this.record = record;
  }

  /** Returns the turn with all its calls and outputs, so that another runtime can continue it. Reads all pages of them. */
  async look({ signal }: Cancellable = {}): Promise<TurnDetail> {
    const read = (query = ''): Promise<TurnDetail> =>
      this.#transport.json({ method: 'GET', path: this.#path + query, signal });
    let page = await read();
    const calls = [...page.calls];
    const outputs = [...page.outputs];
    // A service from before pages sends no cursor.
    while (page.nextCursor) {
      page = await read(toQueryString({ cursor: page.nextCursor }));
      calls.push(...page.calls);
      outputs.push(...page.outputs);
    }
    return { ...page, calls, outputs };
  }

  /** Returns the input for the model. Request it before every call of the model. */
  prompt({ signal, ...request }: PromptRequest & Cancellable = {}): Promise<Prompt> {
    return this.#post('/prompt', request, signal);
  }

  /**
   * Calls a tool, also one of yours, once. An error that a model can correct is a result with `isError`, and so is a result of your
   * tool that the service cannot take, such as one that is too long. Aborting the signal aborts the call, and the promise rejects
   * when the service has aborted it. It rejects after a second at the latest; the client then goes on to abort the call. A lost
   * connection or the end of this process does not abort it: the tool continues.
   *
   * @param callId your own id; a call with the same id returns the same result for 24 hours
   * @param options.keepRunning the tool continues also when the signal aborts
   */
  call(
    callId: string,
    name: string,
    args: Json = {},
    { signal, ...options }: Cancellable & { readonly keepRunning?: boolean } = {},
  ): Promise<ToolResult> {
    return this.#ownTools.runOnce(`${this.#path} ${callId} ${JSON.stringify([name, args])}`, async () => {
      const answer = await this.requestCall(callId, name, args, { ...options, signal });
      if ('content' in answer) return answer;
      const performed = this.#performCall(answer, signal);
      return signal === undefined || options.keepRunning
        ? performed
        : this.#abortWith(signal, callPath(callId), performed);
    });
  }

  /** Performs a call of a tool of yours, and sends its result. */
  async #performCall(call: OwnCall, signal: AbortSignal | undefined): Promise<ToolResult> {
    const result = await this.#ownTools.perform(call, signal);
    try {
      return await sendResult(this, call.callId, result, { signal });
    } catch (error) {
      if (!hasCode(error, 'id_reused')) throw error;
      // The call was aborted, or another process has sent a result. The tool has run, so the call must not seem to be another one.
      const known = await this.lookUpCall(call.callId, { signal });
      if (known.result === null) throw error;
      return known.result;
    }
  }

  /**
   * Calls a tool and returns its result. For a tool of yours, returns the judged call instead: perform it, and send its result
   * with `answerCall`.
   *
   * @param options.own you perform the tool, although the session does not list it
   * @param options.keepRunning the tool continues also when the signal aborts
   */
  async requestCall(
    callId: string,
    name: string,
    args: Json = {},
    {
      signal,
      keepRunning = false,
      ...options
    }: Cancellable & { readonly own?: boolean; readonly keepRunning?: boolean } = {},
  ): Promise<ToolResult | OwnCall> {
    // Otherwise a lost connection aborts the call, and the retry returns that as its result.
    const body = { name, arguments: args, attempt: crypto.randomUUID(), ...options, keepRunning: true };
    const path = callPath(callId);
    if (signal === undefined || keepRunning || options.own) return this.#post(path, body, signal);
    signal.throwIfAborted();
    return this.#abortWith(signal, path, this.#post<ToolResult | OwnCall>(path, body, undefined));
  }

  /**
   * Returns the answer of a call. If the signal aborts first, aborts the call, and rejects with the signal's reason.
   *
   * @param path of the call below the turn
   */
  #abortWith<Answer>(signal: AbortSignal, path: string, answer: Promise<Answer>): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const onAbort = (): void => {
        const stopWaiting = new AbortController();
        const waited = pause(ABORT_WAIT_MAX_MS, stopWaiting.signal).catch(() => undefined);
        void Promise.race([this.#abortCall(path, answer), waited]).then(() => {
          stopWaiting.abort();
          reject(signal.reason);
        });
      };
      if (signal.aborted) onAbort();
      else signal.addEventListener('abort', onAbort, { once: true });
      const end = (settle: () => void): void => {
        signal.removeEventListener('abort', onAbort);
        if (!signal.aborted) settle();
      };
      answer.then(
        (result) => end(() => resolve(result)),
        (error) => end(() => reject(error)),
      );
    });
  }

  /**
   * Aborts a call whose request is not answered. The request stays open: it may not have arrived yet, and would begin the call
   * after the abort. So does its retry after a supervisor stopped: only an answered call is over.
   */
  async #abortCall(path: string, answer: Promise<unknown>): Promise<void> {
    let isOver = false;
    const end = (): void => {
      isOver = true;
    };
    answer.then(end, end);
    const request = { method: 'DELETE', path: this.#path + path, repeatable: true } as const;
    const abort = (): Promise<boolean> =>
      this.#transport.json<TurnCall>(request).then(
        ({ state }) => state === 'answered',
        (error: unknown) => !hasCode(error, 'not_found'),
      );
    for (let ms = ABORT_PAUSE_MIN_MS; !isOver && !(await abort()); ms = Math.min(2 * ms, ABORT_PAUSE_MAX_MS))
      await pause(ms);
  }

  /**
   * Sends the result of a call of your own tool. Returns the result that the model may read. Half surrogate pairs and U+0000 in its
   * texts become U+FFFD, as in the texts of `output`, `stream` and `end`.
   */
  answerCall(callId: string, result: ToolResult, { signal }: Cancellable = {}): Promise<ToolResult> {
    return this.#post(`${callPath(callId)}/result`, toStorableJson(result), signal);
  }

  /** Returns the state of a call and its result. */
  lookUpCall(callId: string, { signal }: Cancellable = {}): Promise<TurnCall> {
    const path = `${this.#path}${callPath(callId)}`;
    return this.#transport.json({ method: 'GET', path, signal });
  }

  /**
   * Sends a whole text of the agent. `show` of the response is the text that may be shown.
   *
   * @param options.isShown you have shown the text already, because the prompt said `outbound: 'none'`
   */
  async output(text: string, { signal, ...options }: OutputOptions & { isShown?: boolean } = {}): Promise<TurnOutput> {
    requireText('output', text);
    return this.#post('/output', { text: toStorable(text), ...options }, signal);
  }

  /** Sends one piece of a text of the agent. `show` of the response is the text that may be shown now, with pieces held back before. */
  async piece(
    text: string,
    { signal, ...options }: OutputOptions & { readonly id: string; readonly piece: number; readonly done?: boolean },
  ): Promise<TurnOutput> {
    requireText('piece', text);
    return this.#post('/output', { text, ...options }, signal);
  }

  /**
   * Sends a text of the agent as the model writes it. Yields the texts that may be shown: each piece at once while no plugin
   * judges messages or all of them stream, otherwise the whole text at the end. Ends with the first response whose action is
   * `cancel`: then stop showing the text.
   */
  async *stream(pieces: AsyncIterable<string>, { signal, ...options }: OutputOptions = {}): AsyncGenerator<TurnOutput> {
    const { attachments, ...rest } = addId(options);
    let piece = 0;
    let waiting = '';
    for await (const part of pieces) {
      const text = waiting + part;
      // Half a surrogate pair waits for the other half: JSON cannot carry it.
      const isSplit = /[\ud800-\udbff]$/.test(text);
      waiting = isSplit ? text.slice(-1) : '';
      const sent = isSplit ? text.slice(0, -1) : text;
      if (sent === '') continue;
      const output = await this.#post<TurnOutput>('/output', { ...rest, piece, text: toStorable(sent) }, signal);
      yield output;
      if (output.action === 'cancel') return;
      piece += 1;
    }
    // Files without a text are sent, too: the service refuses them with a sentence.
    if (piece === 0 && waiting === '' && (attachments ?? []).length === 0) return;
    const last = { ...rest, piece, text: toStorable(waiting), done: true, ...(attachments ? { attachments } : {}) };
    yield await this.#post('/output', last, signal);
  }

  /**
   * Ends the turn and sends its last output to the channel of the session. If a plugin cancels `text`, the turn stays open.
   *
   * @param text the agent's last text, if it was not sent as an output
   * @param options.reply false: nothing is sent to the channel, because the turn is within another one. Default: true
   */
  async end(
    text?: string,
    { signal, id, ...options }: OutputOptions & { readonly reply?: boolean } = {},
  ): Promise<TurnRecord> {
    if (text !== undefined) requireText('end', text);
    const body = {
      ...(text === undefined ? {} : { text: toStorable(text) }),
      ...(id === undefined ? {} : { outputId: id }),
      ...options,
    };
    return this.#post('/end', body, signal);
  }

  #post<T>(suffix: string, body: unknown, signal: AbortSignal | undefined): Promise<T> {
    return this.#transport.json({ method: 'POST', path: this.#path + suffix, body, signal, repeatable: true });
  }
}

/** Without types, a caller may pass the fields of the REST interface, such as `{ text }`. */
function requireText(method: 'output' | 'piece' | 'end', text: unknown): void {
  if (typeof text === 'string') return;
  throw new TypeError(`turn.${method} takes the text as its first argument: turn.${method}('…')`);
}

/** Why the service may refuse a result of a tool: it is too long, nested too deep, or a part of it lacks a field. */
const REFUSED_RESULT: ReadonlySet<string> = new Set(['too_large', 'bad_request']);

/** Sends the result of a call. One that the service cannot take becomes a failed result, which the model can read. */
export async function sendResult(
  turn: Turn,
  callId: string,
  result: ToolResult,
  options: Cancellable,
): Promise<ToolResult> {
  try {
    return await turn.answerCall(callId, result, options);
  } catch (error) {
    if (!(error instanceof BulkheadError && REFUSED_RESULT.has(error.code))) throw error;
    return turn.answerCall(callId, failedResult(error.message), options);
  }
}
