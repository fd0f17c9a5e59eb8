/**
 * One agent's conversation, judged, for all adapters. Each message of a user opens a turn of the session, the model gets the
 * messages after the plugins' changes, and no text of the model leaves before it is judged.
 */

import { failedResult, INTERRUPTED_CALL } from '../session/own-tools.ts';
import type { Json, Prompt, Session, ToolResult, Trigger, Turn, TurnDetail } from '../session/session.ts';
import { BulkheadError } from '../session/session.ts';
import { toStorable } from '../session/storable-text.ts';
import { hasCode } from '../session/transport.ts';
import { sendResult } from '../session/turn.ts';
import { JudgedAnswer } from './judged-answer.ts';
import {
  type CallResults,
  INNER_TRIGGER,
  type KnownMessage,
  KnownMessages,
  type SentFiles,
  type TurnWork,
} from './known-messages.ts';
import { areSame, describeFiles, type MessageFile, MessageFiles } from './message-files.ts';
import { formatToolName, type ModelCall, type RefusedCall, type ToolName, withoutPrototypes } from './model-calls.ts';
import { VetoError } from './veto-error.ts';

export interface AdapterOptions {
  /**
   * The id of the message that the next run answers. Pass the id of a channel's message, which was judged when it came, or an
   * id of yours: the same id is judged once, however often it is sent. Other messages of the same run, such as of an agent that
   * is a tool of the first, get turns of their own, whose texts are not sent to the channel.
   */
  readonly messageId?: string;
  /** The name of the sender of messages to the agent that plugins see. Default: `user`. */
  readonly from?: string;
  /** The cause of the agent's turns that plugins see. Default: `user`. */
  readonly trigger?: Trigger;
  /** The name of the recipient of the agent's messages that plugins see. Default: `user`. */
  readonly target?: string;
  /** Number of messages after which a plugin summarizes the conversation. Default: never. */
  readonly compactAfter?: number;
  /** Number of recent messages that the summary does not replace. Default: 4. */
  readonly keep?: number;
}

/** How an adapter reads and writes the messages of its framework. System prompts are not among them. */
export interface MessageFormat<Message> {
  /** The text of a user's message; null for messages of the agent and of tools. */
  readUserText(message: Message): string | null;
  /** Number of text parts that `readUserText` joins. */
  countTexts(message: Message): number;
  /** The parts of a user's message that are no text. */
  readFiles(message: Message): readonly MessageFile[];
  /**
   * Replaces text and files of a user's message. Files with an index are its own. The new text part keeps the options of the text
   * parts that it replaces.
   */
  replaceContent(message: Message, text: string, files: readonly MessageFile[]): Message;
  /** The calls of tools in a message of the agent. */
  readToolCalls(message: Message): ToolArguments[];
  /** The results of tools in a message. */
  readToolResult(message: Message): ToolText[];
  /** The message with another text in place of one of its results. */
  replaceToolResult(message: Message, callId: string, text: string): Message;
  /** Calls of the model that plugins refused, and why, as messages for the model. `reasoning` precedes the calls. */
  createRefusals(calls: readonly RefusedCall[], reasoning: readonly object[]): Message[];
  /** Adds reasoning that the framework did not get, each before the answer that has the call of its key. */
  addReasoning(messages: Message[], reasoning: ReadonlyMap<string, readonly object[]>): Message[];
}
interface ToolArguments {
  readonly callId: string;
  readonly arguments: unknown;
}
/** The name is empty if the message does not say it. */
interface ToolText extends ToolName {
  readonly callId: string;
  readonly text: string;
  readonly isError?: boolean;
}

/** Refused calls, which the framework does not know, and the place of their messages in its conversation. */
interface Refusals {
  readonly calls: readonly RefusedCall[];
  /** The reasoning of an answer whose calls were all refused. */
  readonly reasoning: readonly object[];
  /** Null: after the results of the calls that passed, which come with the next request. */
  place: RefusalPlace | null;
}

/** A place in a turn. It has no index, because the app may leave out steps of a long run. */
interface RefusalPlace {
  /** The call whose result is the last one before. Undefined: no result of the turn is before. */
  readonly callId: string | undefined;
  /** Number of messages between that result, or the user's message, and the place. */
  readonly distance: number;
}

/** A tool that the model may call. */
interface RequestTool extends ToolName {
  readonly description?: string | undefined;
  /** The schema of its arguments: the object that the app gave the framework. */
  readonly schema?: unknown;
}

/** Whether a tool is the framework's own. */
type OwnCheck = (tool: ToolName) => Promise<boolean>;

interface ModelRequest<Message> {
  readonly systemPrompt: string;
  readonly model: string;
  readonly tools: readonly RequestTool[];
  readonly messages: readonly Message[];
  /** Whether a later request surely has the result of a call. Default: it has. */
  readonly takesResult?: (call: ToolName) => boolean;
  readonly signal?: AbortSignal | undefined;
}

/** A request that is prepared, and how its adapter reads it. */
interface PendingRequest<Message> extends ModelRequest<Message> {
  readonly format: MessageFormat<Message>;
  readonly options: AdapterOptions;
  readonly isOwn: OwnCheck;
}

/** The input for the model, and the judge of its answer. */
interface PreparedRequest<Message> {
  readonly systemPrompt: string;
  readonly messages: Message[];
  readonly answer: JudgedAnswer;
}

/** The messages of a request whose turns are known. */
interface JudgedMessages {
  /** The message that the model answers. Null: the request has neither a user's message nor results of a known turn. */
  readonly current: KnownMessage | null;
  /** Null for messages that are not a user's. */
  readonly knownByIndex: readonly (KnownMessage | null)[];
}

/** A message of a user whose turn is opened. */
interface NewMessage {
  /** Of its turn. */
  readonly id: string;
  readonly text: string;
  readonly files: readonly MessageFile[];
  readonly digest: string;
  /** Whether the model is asked to answer it. Others were answered elsewhere. */
  readonly isLast: boolean;
  /** Whether it is within the turn of another message. */
  readonly isInner: boolean;
}

/** An open turn, as far as this process works on it. */
interface OpenTurn {
  readonly turn: Turn;
  /** Ids of its calls in the framework. */
  readonly callIds: Set<string>;
  /** Wire ids of calls of the framework's own tools that another process made. No other tool may get their results. */
  readonly earlierOwn: Set<string>;
  /** Texts of the results that the framework has, by the wire ids of their calls. */
  readonly results: Map<string, string | null>;
  readonly refusals: Refusals[];
  /** Reasoning that the framework did not get, by the id of the first call of its answer. */
  readonly reasoning: Map<string, readonly object[]>;
  /** Ids of calls in the framework that passed, and whose results no request has had. */
  readonly waiting: Set<string>;
  /** The last answer of the model. */
  answer: JudgedAnswer | null;
  /** Whether an answer may have broken off in the middle of a text that is judged in pieces. */
  mayHaveLeftOutputs: boolean;
}

/** Times in a turn that the model may ask for nothing but refused calls. */
const REFUSALS_MAX = 8;
/** Turns that one request of the model looks up because its prompt lacks their results. The results of others are left out. */
const LOOKS_MAX = 5;
/** Times that one request asks the service whether an earlier message is one that was not found by its text, and it is another. */
const COMPARED_MAX = 5;
/** Looks at outputs that were left open: one piece of each may have been on its way. */
const LEFT_OUTPUT_LOOKS_MAX = 3;
/** Texts of the service in place of results that are kept for later turns. Those before are left out. */
const TRUSTED_MAX = 1_000;
const LEFT_OUT = 'The result of this call is left out, because the plugins have not judged it.';
/** So many that a user cannot find two pictures with the same: the model would get the second as judged with the first. */
const DIGEST_CHARS = 32;
/** Longer ids of calls go over the wire as a digest. */
const CALL_ID_MAX_CHARS = 200;
/** Begins the ids under which the service judges results of the session's tools for calls that it did not get. */
const UNCALLED_PREFIX = 'uncalled-';
/** Codes of calls that the service cannot judge as the model wrote them. The model reads why, and may correct itself. */
const CORRECTABLE: ReadonlySet<string> = new Set(['bad_request', 'too_large', 'invalid_arguments']);
const MODEL_MAX_CHARS = 200;

const conversations = new WeakMap<Session, Conversation>();

/** The conversation of a session, shared by its model and its tools. */
export function openConversation(session: Session): Conversation {
  const known = conversations.get(session);
  if (known) return known;
  const conversation = new Conversation(session);
  conversations.set(session, conversation);
  return conversation;
}

export class Conversation {
  readonly session: Session;
  readonly #files: MessageFiles;
  readonly #known: KnownMessages;
  /** One request opens turns at a time, so that two runs at once do not open one twice. */
  #opening: Promise<unknown> = Promise.resolve();
  /** Keys of the session's tools that the framework got. Null: it got none from `bulkheadTools`. */
  #offered: Set<string> | null = null;
  /** Names of the session's tools that this runtime performs and that the framework got, by their schemas. */
  readonly #runtimeSchemas = new WeakMap<object, string>();
  /** The same names: a request may lack the tools. */
  readonly #runtimeNames = new Set<string>();
  /** By their ids. */
  readonly #openTurns = new Map<string, OpenTurn>();
  /** What this process does in the turns of known messages. */
  readonly #work: TurnWork = {
    isBusy: (turnId, resultIds) => this.#isBusy(turnId, resultIds),
    hasCallOf: (turnId, callIds) => this.#hasCallOf(turnId, callIds),
  };
  /** Ids of turns in which a request to the model is prepared. */
  readonly #preparing = new Set<string>();
  /** The options of adapters that have asked a model. */
  readonly #knownOptions = new WeakSet<AdapterOptions>();
  /** Whether a tool is the framework's, by the name under which plugins judge it. For tools that no request describes. */
  readonly #areOwn = new Map<string, boolean>();
  /** Results of the session's tools that the service returned under no call of the same id, by turn and call. */
  readonly #trusted = new Map<string, null>();

  constructor(session: Session) {
    this.session = session;
    this.#files = new MessageFiles(session);
    this.#known = new KnownMessages(session);
  }

  /**
   * Judges the new messages of the user, and returns what the model may be asked.
   *
   * @throws VetoError before the model was asked
   */
  async prepare<Message>(
    asked: ModelRequest<Message>,
    format: MessageFormat<Message>,
    options: AdapterOptions,
  ): Promise<PreparedRequest<Message>> {
    const request = { ...asked, format, options, isOwn: this.#createOwnCheck(asked.tools) };
    for (let isAgain = false; ; isAgain = true) {
      const opening = this.#opening.then(() => this.#judgeMessages(request));
      this.#opening = opening.catch(() => undefined);
      const judged = await opening;
      const { current, knownByIndex } = judged;
      if (!current)
        throw new Error(
          'The model needs a message of the user, because plugins judge the answer to a message: keep the message of the turn in what the model gets.',
        );
      try {
        return await this.#prepareInTurn(current, judged, request);
      } catch (error) {
        if (!hasCode(error, 'turn_ended')) throw error;
        // It was ended or cleared elsewhere.
        await this.#refresh(current, request.signal);
        const later = request.messages.slice(knownByIndex.lastIndexOf(current) + 1);
        const isContinued = later.some((message) => format.readToolResult(message).length > 0);
        // A run does not go on in another turn: clearing the session stops it.
        if (isAgain || isContinued) throw error;
      } finally {
        this.#preparing.delete(current.turn.id);
      }
    }
  }

  async #prepareInTurn<Message>(
    { turn }: KnownMessage,
    { knownByIndex }: JudgedMessages,
    request: PendingRequest<Message>,
  ): Promise<PreparedRequest<Message>> {
    const { messages, format, isOwn, signal } = request;
    const failed = this.#openTurns.get(turn.id)?.answer;
    if (failed?.hasFailed) await failed.abandon();
    const open = this.#holdOpenTurn(turn);
    if (open.mayHaveLeftOutputs) {
      const calls = await endLeftOutputs(turn, signal);
      for (const { callId, name } of calls) if (await isOwn({ name })) open.earlierOwn.add(callId);
      open.mayHaveLeftOutputs = false;
    }
    const last = knownByIndex.findLastIndex((one) => one !== null);
    const isSent = await this.#sendResults(open, messages.slice(last + 1), request);
    const prompt = await this.#readPrompt(turn, request, isSent);
    if (prompt.action === 'cancel') throw new VetoError(prompt.cancelledBy, prompt.reason, prompt.isFinal);
    const [head] = prompt.messages;
    const summary = head?.data?.kind === 'summary' ? head.text : null;
    const from = summary === null ? 0 : findFirstUncovered(knownByIndex, prompt.messages.slice(1));
    const sent = [...open.results].map(([callId, text]) => [`${turn.id} ${callId}`, text] as const);
    // The transcript comes last: it has results for longer than the service has their calls.
    const results = new Map<string, string | null>([
      ...this.#trusted,
      ...sent,
      ...(await readJudgedResults(prompt.messages, isOwn)),
    ]);
    await this.#addMissingResults(results, knownByIndex, from, request);
    const { refusals } = open;
    const end = findPlace(messages, last, format);
    for (const one of refusals) one.place ??= end;
    const places = refusals.map((one) => findIndex(one.place ?? end, messages, last, format));
    const refusedAt = (index: number): Message[] =>
      refusals
        .filter((_one, at) => places[at] === index)
        .flatMap(({ calls, reasoning }) => format.createRefusals(calls, reasoning));
    const judged: Message[] = [];
    // The app may leave out the start of the conversation, and with it the message of the turn in which these results are.
    const earlier = this.#known.listOthers(knownByIndex).map((one) => one.turn.id);
    let turnIds = last < 0 ? [turn.id] : earlier;
    for (const [index, message] of messages.entries()) {
      const own = knownByIndex[index];
      if (own) turnIds = [own.turn.id];
      if (index < from) continue;
      judged.push(...refusedAt(index));
      if (!own) judged.push(await this.#withJudgedResults(message, turnIds, results, request));
      else if (own.text !== null) judged.push(await this.#applyJudgement(message, own, own.text, request));
    }
    judged.push(...refusedAt(messages.length));
    const answer: JudgedAnswer = new JudgedAnswer({
      turn,
      outbound: prompt.outbound,
      target: request.options.target,
      signal,
      isOwn,
      onCallId: async (callId, tool) => {
        let id = this.#nameCall(open, callId);
        if (await isOwn(tool)) return id;
        while (open.earlierOwn.has(await toWireId(id))) id = this.#nameCall(open, callId);
        return id;
      },
      onCall: async (call) => {
        const rename = () => this.#nameCall(open, call.callId);
        const judged = (await isOwn(call)) ? await judgeCall(turn, call, rename, signal) : call;
        if (!('text' in judged) && request.takesResult?.(judged) !== false) open.waiting.add(judged.callId);
        return judged;
      },
      onRefused: (calls, isAll, reasoning) => {
        refusals.push({ calls, reasoning, place: isAll ? end : null });
        return refusals.length <= REFUSALS_MAX;
      },
      onReasoningLeftOut: (callId, reasoning) => open.reasoning.set(callId, reasoning),
      onEnd: () => this.#endTurn(turn),
      // The next message ends this turn, which then takes no output.
      onAbandon: (work) => {
        // A failed answer may end when a later one waits for results.
        if (open.answer === answer) open.waiting.clear();
        open.mayHaveLeftOutputs ||= prompt.outbound === 'pieces';
        this.#opening = Promise.all([this.#opening, work]);
      },
    });
    open.answer = answer;
    return {
      systemPrompt: [prompt.systemPrompt, summary ?? ''].filter((part) => part !== '').join('\n\n'),
      messages: open.reasoning.size === 0 ? judged : addReasoning(judged, open.reasoning, format),
      answer,
    };
  }

  /** Returns the message with text and files after the plugins' changes. */
  async #applyJudgement<Message>(
    message: Message,
    known: KnownMessage,
    text: string,
    { format, signal }: PendingRequest<Message>,
  ): Promise<Message> {
    const files = format.readFiles(message);
    // The same id of a message may come with other files, which the plugins have not judged.
    if (known.sent?.digest !== (await digestFiles(files))) known.sent = await this.#sendFiles(files, signal);
    const restored = await this.#files.restore(known.attachments, known.sent.attachments, files, signal);
    // Providers join several text parts in ways of their own, so that the model would read another text than plugins judged.
    const isJudgedText = text === format.readUserText(message) && format.countTexts(message) <= 1;
    if (restored === null && isJudgedText) return message;
    return format.replaceContent(message, text, restored ?? files);
  }

  async #sendFiles(files: readonly MessageFile[], signal: AbortSignal | undefined): Promise<SentFiles> {
    const [digest, attachments] = await Promise.all([digestFiles(files), this.#files.attach(files, signal)]);
    return { digest, attachments };
  }

  async #readPrompt<Message>(
    turn: Turn,
    { systemPrompt, model, signal, options: { compactAfter, keep } }: PendingRequest<Message>,
    isChanged: boolean,
  ): Promise<Prompt> {
    const known = this.#known.find(turn.id);
    const { prompt } = known ?? {};
    if (known) known.prompt = undefined;
    if (prompt && !isChanged) return prompt;
    return turn.prompt({
      model: model.slice(0, MODEL_MAX_CHARS),
      ...(systemPrompt === '' ? {} : { systemPrompt }),
      compactAfter,
      keep,
      signal,
    });
  }

  /** Adds tools of the session that the framework gets. Earlier ones may still be in use. */
  addOffered(tools: readonly RequestTool[]): void {
    this.#offered = new Set([...(this.#offered ?? []), ...tools.map(keyOf)]);
    for (const { name, schema } of tools) {
      if (!isRuntimeName(name)) continue;
      this.#runtimeNames.add(name);
      if (isObject(schema)) this.#runtimeSchemas.set(schema, name);
    }
  }

  /**
   * Whether a tool of a request is the session's. Of a tool that this runtime performs, the app may have another one with the same
   * name, description and arguments, whose calls would run unjudged, so only the schema of `bulkheadTools` itself identifies it.
   */
  #isOffered(tool: RequestTool): boolean {
    const { name, schema } = tool;
    if (!isRuntimeName(name)) return this.#offered?.has(keyOf(tool)) === true;
    return isObject(schema) && this.#runtimeSchemas.get(schema) === name;
  }

  /**
   * Returns a check whether a tool is the framework's own, such as one of another MCP server that has the name of a plugin's
   * tool: where the framework has tools of the session, `#isOffered` distinguishes those of a request.
   */
  #createOwnCheck(tools: readonly RequestTool[]): OwnCheck {
    return async (called) => {
      const { name } = called;
      const judgedName = formatToolName(called);
      const same = tools.filter((tool) => formatToolName(tool) === judgedName);
      if (same.length > 0 && this.#offered !== null) {
        const isOwn = !same.every((tool) => this.#isOffered(tool));
        if (isOwn) this.#areOwn.set(judgedName, true);
        return isOwn;
      }
      const known = this.#areOwn.get(judgedName);
      if (known !== undefined) return known;
      if (isRuntimeName(name)) return !this.#runtimeNames.has(judgedName);
      const isOwn = !(await this.session.tools()).some((tool) => tool.name === name);
      this.#areOwn.set(judgedName, isOwn);
      return isOwn;
    };
  }

  /**
   * Returns the message with the results after the plugins' changes. Results that they have not judged are left out: of all
   * tools with `bulkheadTools`, otherwise of the framework's own. The service may have judged others without a turn, such as over MCP.
   *
   * @param turnIds of the turns in one of which the message is
   */
  async #withJudgedResults<Message>(
    message: Message,
    turnIds: readonly string[],
    judged: CallResults,
    { format, isOwn }: PendingRequest<Message>,
  ): Promise<Message> {
    let passed = message;
    for (const { callId, text, ...tool } of format.readToolResult(message)) {
      let known = await findResultOfTurns(judged, turnIds, callId);
      if (known === undefined && (this.#offered !== null || (await isOwn(tool)))) known = LEFT_OUT;
      if (typeof known === 'string' && known !== toStorable(text))
        passed = format.replaceToolResult(passed, callId, known);
    }
    return passed;
  }

  /** Adds the results that a prompt lacks: a summary replaces the first half of their turn, or there were too many messages. */
  async #addMissingResults<Message>(
    results: Map<string, string | null>,
    knownByIndex: readonly (KnownMessage | null)[],
    from: number,
    { messages, format, isOwn, signal }: PendingRequest<Message>,
  ): Promise<void> {
    const lacking = new Set<KnownMessage>();
    let known: KnownMessage | null = null;
    for (const [index, message] of messages.entries()) {
      known = knownByIndex[index] ?? known;
      if (index < from || known?.state !== 'ended') continue;
      for (const { callId, ...tool } of format.readToolResult(message)) {
        const isMissing = (await findResult(results, known.turn.id, callId)) === undefined;
        if (isMissing && (this.#offered !== null || (await isOwn(tool)))) lacking.add(known);
      }
    }
    const unread = [...lacking].filter((one) => !one.results).slice(-LOOKS_MAX);
    await Promise.all(
      unread.map(async (one) => {
        one.results = await readResults(one.turn, isOwn, signal);
      }),
    );
    for (const { turn, results: found = [] } of lacking)
      for (const [callId, text] of found) results.set(`${turn.id} ${callId}`, text);
  }

  /** Calls a tool in the turn whose model asked for it. */
  async callTool(
    name: string,
    args: unknown,
    { callId, signal }: { callId?: string | undefined; signal?: AbortSignal | undefined },
  ): Promise<ToolResult> {
    try {
      if (callId === undefined) return await this.session.callTool(name, args, { signal });
      const turn = this.#findTurnOfCall(callId) ?? (await this.#findOpenTurn());
      const id = await toWireId(callId);
      if (!turn) return await this.session.callTool(name, args, { callId: id, signal });
      const result = await this.#callInTurn(turn, callId, (wireId) =>
        turn.call(wireId, name, args as never, { signal }),
      );
      if (result.isFinal === false) this.#trustResult(callId, id);
      return result;
    } catch (error) {
      const { message } = requireCorrectable(error);
      if (callId !== undefined) this.#trustResult(callId, await toWireId(callId));
      return failedResult(message);
    }
  }

  /** Makes a call under the framework's id, or under the next one that no call of another process in the turn has. */
  async #callInTurn(turn: Turn, callId: string, call: (wireId: string) => Promise<ToolResult>): Promise<ToolResult> {
    const open = this.#holdOpenTurn(turn);
    open.callIds.add(callId);
    let id = callId;
    for (;;) {
      const result = await call(await toWireId(id)).catch(ignoreReusedId);
      // The framework keeps its id, under which the service has the result of the other call.
      if (result !== null && id !== callId) this.#trustResult(callId, await toWireId(callId));
      if (result !== null) return result;
      id = chooseCallId(open, callId);
    }
  }

  /** Keeps a text of the service as it is, such as one that explains why a call did not run: the service has stored no such call. */
  #trustResult(callId: string, wireId: string): void {
    const open = this.#findOpenTurnOfCall(callId);
    if (!open) return;
    open.results.set(wireId, null);
    this.#trusted.set(`${open.turn.id} ${wireId}`, null);
    const [oldest] = this.#trusted.keys();
    if (oldest !== undefined && this.#trusted.size > TRUSTED_MAX) this.#trusted.delete(oldest);
  }

  #findTurnOfCall(callId: string): Turn | undefined {
    return this.#findOpenTurnOfCall(callId)?.turn;
  }

  #findOpenTurnOfCall(callId: string): OpenTurn | undefined {
    return [...this.#openTurns.values()].findLast(({ callIds }) => callIds.has(callId));
  }

  /** A framework that goes on after a restart, or in another process, calls tools before it asks the model. */
  async #findOpenTurn(): Promise<Turn | undefined> {
    if (!this.#known.wasRead || !this.#known.isEmpty) await this.#known.loadNewest();
    return this.#known.findOpen()?.turn;
  }

  #holdOpenTurn(turn: Turn): OpenTurn {
    const known = this.#openTurns.get(turn.id);
    if (known) return known;
    const open: OpenTurn = {
      turn,
      callIds: new Set(),
      earlierOwn: new Set(),
      results: new Map(),
      refusals: [],
      reasoning: new Map(),
      waiting: new Set<string>(),
      answer: null,
      // Another process opened the turn.
      mayHaveLeftOutputs: this.#known.find(turn.id)?.digest === '',
    };
    this.#openTurns.set(turn.id, open);
    return open;
  }

  /** @throws BulkheadError `turn_ended` if it was cleared elsewhere; VetoError if a required plugin could not judge a text that broke off */
  async #endTurn(turn: Turn): Promise<void> {
    const known = this.#known.find(turn.id);
    const ended = await turn.end(undefined, known?.isInner ? { reply: false } : {});
    if (ended.state === 'open') {
      this.#holdOpenTurn(turn).mayHaveLeftOutputs = true;
      throw new VetoError(ended.cancelledBy, ended.reason, ended.isFinal);
    }
    if (known) known.state = 'ended';
    this.#openTurns.delete(turn.id);
  }

  /**
   * Sends the results that plugins have to judge: those of the framework's own tools, and texts that the framework wrote in place of
   * the result of a session's tool. Returns whether there were new results.
   *
   * @param messages of the framework, those after the message of the turn
   */
  async #sendResults<Message>(
    { turn, callIds, results }: OpenTurn,
    messages: readonly Message[],
    { format, isOwn, signal }: PendingRequest<Message>,
  ): Promise<boolean> {
    const all = messages.flatMap((message) => format.readToolResult(message));
    const unsent = (await Promise.all(all.map(async (one) => ({ ...one, wireId: await toWireId(one.callId) })))).filter(
      ({ wireId }) => !results.has(wireId),
    );
    if (unsent.length === 0) return false;
    const { calls } = await turn.look({ signal });
    const asked = messages.flatMap((message) => format.readToolCalls(message));
    for (const { callId, wireId, text, isError = false, ...tool } of unsent) {
      const call = calls.find((one) => one.callId === wireId);
      const result = { content: [{ type: 'text' as const, text: toStorable(text) }], isError };
      let judged = call?.result ?? null;
      let isJudgedHere = await isOwn(call ?? tool);
      if (call?.state === 'performing') {
        judged = await judgeResult(turn, wireId, result, signal);
        isJudgedHere = true;
      } else if (!call && !isJudgedHere && this.#offered !== null) {
        // The service got no such call: a person refused it, perhaps, and this is the reason.
        const { arguments: args } = asked.findLast((one) => one.callId === callId) ?? {};
        const callOfText = { callId: await toUncalledId(callId), name: tool.name, arguments: toArguments(args) };
        judged = await judgeUncalled(turn, callOfText, result, signal);
        isJudgedHere = true;
      }
      const known = judged ? formatToolResult(judged) : LEFT_OUT;
      results.set(wireId, isJudgedHere ? known : null);
      callIds.add(callId);
    }
    return true;
  }

  /** Finds the turn of each message of a user, and opens one for each that is new. */
  async #judgeMessages<Message>(request: PendingRequest<Message>): Promise<JudgedMessages> {
    const { messages, format, options, signal } = request;
    const texts = messages.map((message) => format.readUserText(message));
    const files = messages.map((message, index) => (texts[index] === null ? [] : format.readFiles(message)));
    const digests = await Promise.all(
      texts.map((text, index) => (text === null ? null : digestText(text + describeFiles(files[index] ?? [])))),
    );
    const lastReply = texts.lastIndexOf(null);
    const isFirst = !this.#knownOptions.has(options);
    this.#knownOptions.add(options);
    const last = texts.findLastIndex((text) => text !== null);
    const { wasRead } = this.#known;
    const isLong = digests.filter((digest) => digest !== null).length > 1;
    if (isLong || lastReply >= 0 || options.messageId !== undefined) await this.#known.loadMore(signal);
    // A message with files is recognized by its digest alone: the same words may come with another picture.
    const words = texts.map((text, index) => (files[index]?.length ? null : text));
    const resultIds = messages.slice(last + 1).flatMap((message) => format.readToolResult(message).map(readCallId));
    const match = () => {
      const id = this.#chooseMessageId(options, isFirst, words[last] ?? null, digests[last] ?? '', resultIds);
      return {
        id,
        knownByIndex: this.#known.match({ words, digests, lastReply, messageId: id, resultIds }, this.#work),
      };
    };
    let { id: messageId, knownByIndex } = match();
    const lacks = (): boolean => knownByIndex.some((known, index) => known === null && digests[index] && index < last);
    const isOfOther = resultIds.length > 0 && !resultIds.some((callId) => this.#findTurnOfCall(callId));
    if (wasRead && (lacks() || isOfOther)) {
      // Another process may have opened turns since.
      await this.#known.loadNewest(signal);
      ({ id: messageId, knownByIndex } = match());
    }
    while (!this.#known.isComplete && lacks()) {
      await this.#known.loadMore(signal);
      ({ id: messageId, knownByIndex } = match());
    }
    const misses = { left: COMPARED_MAX };
    for (let index = last - 1; index >= 0; index -= 1) {
      const [text, digest] = [texts[index], digests[index]];
      if (knownByIndex[index] || typeof text !== 'string' || typeof digest !== 'string') continue;
      const message = { text, digest, files: files[index] ?? [] };
      const candidates = this.#known.listUnrecognized(knownByIndex, index);
      const isRecognized = await this.#recognize(message, candidates, misses, request);
      if (isRecognized) ({ id: messageId, knownByIndex } = match());
    }
    await this.#endEarlier(knownByIndex, last, request);
    for (const [index, text] of texts.entries()) {
      const digest = digests[index];
      const known = knownByIndex[index];
      if (text === null || typeof digest !== 'string') continue;
      if (known && known.state !== 'judging') continue;
      const id = known?.turn.id ?? (index === last && messageId) ?? '';
      const opened = await this.#open(request, {
        id: id === '' || id === false ? `${digest}.${crypto.randomUUID()}` : id,
        text,
        files: files[index] ?? [],
        digest,
        isLast: index === last,
        isInner: index === last && options.messageId !== messageId,
      });
      knownByIndex[index] = opened;
      // Messages before the last one were answered elsewhere.
      if (index < last && opened.state === 'open') await this.#endTurn(opened.turn);
    }
    const current = last < 0 ? this.#findMessageOfCalls(resultIds) : knownByIndex[last];
    if (current?.state === 'vetoed') {
      const { turn } = await current.turn.look({ signal });
      throw new VetoError(turn.cancelledBy, turn.reason);
    }
    if (!current) return { current: null, knownByIndex };
    if (messageId !== undefined && last >= 0) {
      current.askedDigest = digests[last] ?? undefined;
      current.isInner = false;
    }
    // The next request finds this turn busy.
    this.#preparing.add(current.turn.id);
    const { waiting } = this.#openTurns.get(current.turn.id) ?? {};
    for (const callId of resultIds) waiting?.delete(callId);
    return { current, knownByIndex };
  }

  /** Finds the message whose answer made one of these calls. Apps may leave the message out of a long run. */
  #findMessageOfCalls(callIds: readonly string[]): KnownMessage | null {
    const turn = callIds.map((callId) => this.#findTurnOfCall(callId)).findLast((one) => one !== undefined);
    return (turn && this.#known.find(turn.id)) ?? null;
  }

  /**
   * A new message ends the turns before it that the framework left, such as one that was aborted or stopped after a tool.
   *
   * @param last index of the new message
   */
  async #endEarlier<Message>(
    knownByIndex: readonly (KnownMessage | null)[],
    last: number,
    request: PendingRequest<Message>,
  ): Promise<void> {
    const { format, options, signal } = request;
    const messages = request.messages.slice(0, last);
    for (const [index] of messages.entries()) {
      const one = knownByIndex[index];
      // A run that answers the message of the app may ask a model with other messages, too.
      if (one?.state !== 'open' || one.turn.id === options.messageId) continue;
      const open = this.#holdOpenTurn(one.turn);
      // Its stream was left unread, and the turn takes neither output nor results when it has ended.
      await open.answer?.abandon();
      const next = messages.findIndex((message, at) => at > index && format.readUserText(message) !== null);
      const own = messages.slice(index + 1, next < 0 ? undefined : next);
      try {
        await this.#sendResults(open, own, request);
        await this.#endTurn(one.turn);
      } catch (error) {
        // Another process has the lease. A later message ends the turn, when the lease has expired. Until then, results that plugins
        // have not judged are left out.
        if (hasCode(error, 'turn_held')) continue;
        if (!hasCode(error, 'turn_ended')) throw error;
        await this.#refresh(one, signal);
      }
    }
  }

  /**
   * Finds which of these known messages was sent with this text and these files. The service knows what was sent before plugins changed
   * or cancelled it: opening an ended turn again judges nothing, and is refused if the message is another one.
   *
   * @param misses how many more messages that are other ones this request may ask for
   */
  async #recognize<Message>(
    { text, digest, files }: Pick<NewMessage, 'text' | 'digest' | 'files'>,
    candidates: readonly KnownMessage[],
    misses: { left: number },
    { signal, options }: PendingRequest<Message>,
  ): Promise<boolean> {
    if (candidates.length === 0) return false;
    const sent = await this.#sendFiles(files, signal);
    const { attachments } = sent;
    const same = candidates.find((one) => one.text === toStorable(text) && areSame(one.attachments, attachments));
    if (same) {
      Object.assign(same, { digest, sent });
      return true;
    }
    for (const known of candidates) {
      // Opening an open turn would renew its lease, also if the message is another one.
      if (known.state !== 'ended' && known.state !== 'vetoed') continue;
      if (misses.left === 0) return false;
      const { trigger = 'user', message } = known.record ?? {};
      const from = message?.from ?? options.from;
      const request = {
        id: known.turn.id,
        text: toStorable(text),
        ...(attachments.length > 0 ? { attachments } : {}),
        trigger,
        ...(from === undefined ? {} : { from }),
      };
      const opened = await this.session.openTurn(request, { signal }).catch((error: unknown) => {
        if (!hasCode(error, 'turn_ended')) return ignoreReusedId(error);
        // The session was cleared elsewhere.
        this.#known.remove(known);
        return null;
      });
      if (opened === null) {
        misses.left -= 1;
        continue;
      }
      Object.assign(known, { digest, sent });
      return true;
    }
    return false;
  }

  async #open<Message>(
    { systemPrompt, model, signal, options }: PendingRequest<Message>,
    { id, text, files, digest, isLast, isInner }: NewMessage,
  ): Promise<KnownMessage> {
    const { from, trigger = 'user', compactAfter, keep } = options;
    const sent = await this.#sendFiles(files, signal);
    const { attachments } = sent;
    const turn = await this.session.openTurn(
      {
        id,
        text: toStorable(text),
        ...(attachments.length > 0 ? { attachments } : {}),
        trigger: isInner ? INNER_TRIGGER : trigger,
        model: model.slice(0, MODEL_MAX_CHARS),
        from,
        ...(systemPrompt === '' ? {} : { systemPrompt }),
        // The model is asked next.
        ...(isLast ? { prompt: { compactAfter, keep } } : {}),
      },
      { signal },
    );
    const { record } = turn;
    const state = record?.state ?? 'open';
    const { text: passed = null, attachments: kept = [] } = record?.message ?? {};
    const prompt = record?.prompt;
    // Without its record, whose prompt has the whole conversation.
    const known = this.session.turn(id);
    const opened = { turn: known, digest, state, isInner, text: passed, attachments: kept, sent, prompt };
    this.#known.set(opened);
    if (record?.action === 'cancel' && !record.isFinal) throw new VetoError(record.cancelledBy, record.reason, false);
    return opened;
  }

  /**
   * Returns the id that the app gave, if this request answers its message. The options of an adapter name one message, and a model
   * is also asked by agents that are tools, and by several nodes of a graph at once.
   *
   * @param isFirst whether the adapter asks for the first time
   */
  #chooseMessageId(
    { messageId }: AdapterOptions,
    isFirst: boolean,
    text: string | null,
    digest: string,
    resultIds: readonly string[],
  ): string | undefined {
    const known = messageId === undefined ? undefined : this.#known.find(messageId);
    if (messageId === undefined || !known) return messageId;
    const isSame = digest === known.digest || digest === known.askedDigest || (text !== null && text === known.text);
    if (known.state === 'ended') return isFirst || isSame ? messageId : undefined;
    if (!this.#isBusy(messageId, resultIds)) return messageId;
    // An app that tries again makes a new adapter, where the calls of the run that failed still wait.
    return isFirst && isSame ? messageId : undefined;
  }

  /** Whether the model answers in this turn, or calls wait for results that are not among these. */
  #isBusy(turnId: string, resultIds: readonly string[]): boolean {
    if (this.#hasCallOf(turnId, resultIds)) return false;
    if (this.#preparing.has(turnId)) return true;
    const open = this.#openTurns.get(turnId);
    if (!open?.answer || open.answer.isAborted || open.answer.hasFailed) return false;
    return open.answer.isRunning || open.waiting.size > 0;
  }

  #hasCallOf(turnId: string, callIds: readonly string[]): boolean {
    const open = this.#openTurns.get(turnId);
    return open !== undefined && callIds.some((callId) => open.callIds.has(callId));
  }

  /** Returns an id that no call of an open turn has, because tools are called by it. */
  #nameCall(open: OpenTurn, callId: string): string {
    const isTaken = [...this.#openTurns.values()].some((one) => one !== open && one.callIds.has(callId));
    return chooseCallId(open, isTaken ? crypto.randomUUID() : callId);
  }

  /** Reads the state of a turn that was ended or cleared elsewhere. */
  async #refresh(known: KnownMessage, signal: AbortSignal | undefined): Promise<void> {
    const { turn } = await known.turn.look({ signal });
    known.state = turn.state;
    known.prompt = undefined;
    this.#openTurns.delete(turn.id);
    if (turn.state === 'cleared') this.#known.remove(known);
  }
}

/** Returns an id of a call that the service can store and have in an address. The framework keeps its own, in which some providers put data. */
async function toWireId(callId: string, prefix = ''): Promise<string> {
  const id = prefix + callId;
  const isStorable = id.length <= CALL_ID_MAX_CHARS && id === toStorable(id);
  if (isStorable && !DOT_SEGMENTS.has(id)) return id;
  // JSON distinguishes half surrogate pairs, which have no bytes of their own.
  return `${prefix}call-${await digest(JSON.stringify(callId))}`;
}
/** URL parsers remove these path segments. */
const DOT_SEGMENTS: ReadonlySet<string> = new Set(['.', '..']);

/**
 * Returns the id under which the service judges a result for a call that it did not get. It differs from that of the call, because the
 * transcript shows by it that the framework wrote the text.
 */
const toUncalledId = (callId: string): Promise<string> => toWireId(callId, UNCALLED_PREFIX);

const isUncalledId = (callId: unknown): boolean => typeof callId === 'string' && callId.startsWith(UNCALLED_PREFIX);

/** Undefined: it is not among the results. */
async function findResult(results: CallResults, turnId: string, callId: string): Promise<string | null | undefined> {
  const uncalled = results.get(`${turnId} ${await toUncalledId(callId)}`);
  return uncalled ?? results.get(`${turnId} ${await toWireId(callId)}`);
}

/** Undefined: it is not among the results of these turns, or several of them have one, because some models number their calls. */
async function findResultOfTurns(
  results: CallResults,
  turnIds: readonly string[],
  callId: string,
): Promise<string | null | undefined> {
  const found = await Promise.all(turnIds.map((turnId) => findResult(results, turnId, callId)));
  const known = found.filter((one) => one !== undefined);
  return known.length === 1 ? known[0] : undefined;
}

/** Arguments as plugins expect them. Frameworks may keep text that is not JSON, or other values, in the calls that they did not make. */
const toArguments = (args: unknown): Json =>
  typeof args === 'object' && args !== null && !Array.isArray(args) ? withoutPrototypes(args as Json) : {};

const readCallId = ({ callId }: ToolText): string => callId;

/** Returns an id that no other call of the turn has: some models number the calls of each answer from zero, or name none. */
function chooseCallId({ callIds }: OpenTurn, callId: string): string {
  let id = callId === '' ? crypto.randomUUID() : callId;
  for (let use = 2; callIds.has(id); use += 1) id = `${callId}-${use}`;
  callIds.add(id);
  return id;
}

/** Whether a tool may be the runtime's: those of plugins and of the host have `__` in their names, and the framework's own may have. */
const isRuntimeName = (name: string): boolean => !name.includes('__');

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;

/** Identifies a plugin's tool among those of a framework. */
const keyOf = ({ name, description = '' }: RequestTool): string => JSON.stringify([name, description]);

/**
 * Has the plugins judge a call of the framework's own tool. Returns the call as it passed, or why it is refused.
 *
 * @param rename returns another id, for a call whose id belongs to another call of an earlier process
 */
async function judgeCall(
  turn: Turn,
  call: ModelCall,
  rename: () => string,
  signal: AbortSignal | undefined,
): Promise<ModelCall | RefusedCall> {
  if (call.parseError !== undefined)
    return refuseUnreadable(
      call,
      `The arguments are not JSON: ${call.parseError}. Call the tool with one JSON object.`,
    );
  const args = withoutPrototypes(call.arguments);
  const name = formatToolName(call);
  try {
    for (let { callId } = call; ; callId = rename()) {
      const wireId = await toWireId(callId);
      const answer = await turn.requestCall(wireId, name, args, { own: true, signal }).catch(ignoreReusedId);
      if (answer === null) continue;
      if ('content' in answer) return { ...call, callId, text: formatToolResult(answer) };
      if (!answer.isRepeated) return { ...call, callId, arguments: answer.arguments };
      // The framework's tools do not say whether they may run twice.
      const interrupted = await judgeResult(turn, wireId, INTERRUPTED_CALL, signal);
      return { ...call, callId, text: formatToolResult(interrupted ?? INTERRUPTED_CALL) };
    }
  } catch (error) {
    return refuseUnreadable(
      call,
      `The call did not run, because plugins cannot judge it: ${requireCorrectable(error).message}`,
    );
  }
}

/** Returns an error that the model can correct. @throws the error if it is another one */
function requireCorrectable(error: unknown): BulkheadError {
  if (error instanceof BulkheadError && CORRECTABLE.has(error.code)) return error;
  throw error;
}

/** Refuses a call. Its arguments are left out, because providers reject a conversation with arguments that are not valid. */
const refuseUnreadable = (call: ModelCall, text: string): RefusedCall => ({ ...call, arguments: {}, text });

async function readResults(turn: Turn, isOwn: OwnCheck, signal: AbortSignal | undefined): Promise<CallResults> {
  const { calls } = await turn.look({ signal });
  const results = new Map<string, string | null>();
  for (const { callId, name, result } of calls)
    if (result) results.set(callId, isUncalledId(callId) || (await isOwn({ name })) ? formatToolResult(result) : null);
  return results;
}

/**
 * Ends texts that another process or an answer that broke off left in the middle: the transcript has them before the next one.
 * Returns the calls of the turn.
 *
 * @throws VetoError if a required plugin does not run
 */
async function endLeftOutputs(turn: Turn, signal: AbortSignal | undefined): Promise<TurnDetail['calls']> {
  for (let looks = 1; ; looks += 1) {
    const { calls, outputs } = await turn.look({ signal });
    const left = outputs.filter(({ state, pieces }) => state === 'open' && pieces > 0);
    let isRefused = false;
    for (const { id, pieces } of left) {
      const ended = await turn.piece('', { id, piece: pieces, done: true, signal }).catch(ignoreReusedId);
      if (ended === null) isRefused = true;
      else if (ended.action === 'cancel' && !ended.isFinal) throw new VetoError(ended.cancelledBy, ended.reason, false);
    }
    // A piece that was on its way when its answer was aborted came after the look. If instead another message has got the id of the
    // output, only the end of the turn can complete it.
    if (!isRefused || looks === LEFT_OUTPUT_LOOKS_MAX) return calls;
  }
}

function ignoreReusedId(error: unknown): null {
  if (hasCode(error, 'id_reused')) return null;
  throw error;
}

/** Returns a result after the plugins' changes. Null: another process ended the turn. */
const judgeResult = (
  turn: Turn,
  id: string,
  result: ToolResult,
  signal: AbortSignal | undefined,
): Promise<ToolResult | null> =>
  sendResult(turn, id, result, { signal }).catch((error: unknown) => {
    if (hasCode(error, 'turn_ended')) return null;
    throw error;
  });

/**
 * Has the plugins judge a text that the framework wrote in place of the result of a session's tool, and adds it to the transcript.
 * Null: another process ended the turn, or has sent another text.
 *
 * @throws VetoError if a required plugin did not run. Left unjudged, the text would be in the conversation for good.
 */
async function judgeUncalled(
  turn: Turn,
  { callId, name, arguments: args }: ModelCall,
  result: ToolResult,
  signal: AbortSignal | undefined,
): Promise<ToolResult | null> {
  const claim = (judged: Json) => turn.requestCall(callId, name, judged, { own: true, signal });
  try {
    const claimed = await claim(args).catch((error: unknown) => {
      // The service cannot store these arguments, which may be why the framework did not make the call.
      requireCorrectable(error);
      return claim({});
    });
    if (!('content' in claimed)) return await sendResult(turn, callId, result, { signal });
    if (claimed.isFinal === false) throw new VetoError(null, formatToolResult(claimed), false);
    return claimed;
  } catch (error) {
    if (hasCode(error, 'turn_ended') || hasCode(error, 'id_reused')) return null;
    throw error;
  }
}

/** The results of a prompt, by turn and call. Null: the service called the tool, so the framework has that text. */
async function readJudgedResults(messages: Prompt['messages'], isOwn: OwnCheck): Promise<[string, string | null][]> {
  const results: [string, string | null][] = [];
  for (const { role, text, data } of messages)
    if (role === 'tool' && data)
      results.push([`${data.turnId} ${data.callId}`, (await isSentByAdapter(data, isOwn)) ? text : null]);
  return results;
}

/** Whether the adapter sent the result, or the text in place of one. A call that plugins refused has no mark of the runtime. */
async function isSentByAdapter(
  { performedBy, callId, tool }: Readonly<Record<string, unknown>>,
  isOwn: OwnCheck,
): Promise<boolean> {
  if (performedBy !== 'runtime') return isUncalledId(callId);
  const name = String(tool);
  // `turn.call` sent the result of a tool that the session offers.
  return !isRuntimeName(name) || (await isOwn({ name }));
}

/** The first message that a summary does not cover: of a turn that it covers in part, the user's. */
function findFirstUncovered(
  knownByIndex: readonly (KnownMessage | null)[],
  after: readonly { readonly id: string; readonly role: string; readonly data?: unknown }[],
): number {
  for (const { role, id, data } of after) {
    const turnId = role === 'user' ? id : (data as { turnId?: unknown } | undefined)?.turnId;
    const index = knownByIndex.findIndex((one) => one !== null && one.turn.id === turnId);
    // Messages that the framework does not have belong to no turn of its conversation, such as mail of other agents.
    if (index >= 0) return index;
  }
  return knownByIndex.findLastIndex((one) => one !== null);
}

/** Adds reasoning to the last turn: some models number their calls, so that earlier turns have the same ids. */
function addReasoning<Message>(
  messages: readonly Message[],
  reasoning: OpenTurn['reasoning'],
  { readUserText, addReasoning: add }: MessageFormat<Message>,
): Message[] {
  const last = messages.findLastIndex((message) => readUserText(message) !== null);
  return [...messages.slice(0, last + 1), ...add(messages.slice(last + 1), reasoning)];
}

/**
 * Returns the place after the last message.
 *
 * @param from index of the user's message of the turn, or -1
 */
function findPlace<Message>(
  messages: readonly Message[],
  from: number,
  { readToolResult }: MessageFormat<Message>,
): RefusalPlace {
  const callIds = messages.map((message) => readToolResult(message).at(-1)?.callId);
  const at = callIds.findLastIndex((callId, index) => index > from && callId !== undefined);
  return { callId: callIds[at], distance: messages.length - Math.max(at, from) - 1 };
}

/** Returns the index of a place. If the message before it is left out, that is the first place of the turn. */
function findIndex<Message>(
  { callId, distance }: RefusalPlace,
  messages: readonly Message[],
  from: number,
  { readToolResult }: MessageFormat<Message>,
): number {
  const hasResult = (message: Message): boolean => readToolResult(message).some((one) => one.callId === callId);
  const at =
    callId === undefined ? from : messages.findLastIndex((message, index) => index > from && hasResult(message));
  return at < 0 ? from + 1 : Math.min(at + 1 + distance, messages.length);
}

const digestFiles = (files: readonly MessageFile[]): Promise<string> => digestText(describeFiles(files));

const digestText = async (text: string): Promise<string> => (await digest(text)).slice(0, DIGEST_CHARS);

async function digest(text: string): Promise<string> {
  const bytes = new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text)));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

type ContentPart = ToolResult['content'][number];

/** Formats a part that is no image for a model. */
export const formatPart = (part: Exclude<ContentPart, { type: 'image' }>): string =>
  part.type === 'text' ? part.text : JSON.stringify(part.json);

/** Formats a tool result for a model: text parts as they are, other parts as JSON. */
export const formatToolResult = ({ content }: ToolResult): string =>
  content.map((part) => (part.type === 'text' ? part.text : JSON.stringify(part))).join('\n');
