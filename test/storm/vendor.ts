/** Everybody outside who makes deliveries and events: each request on a connection of its own, acknowledged or not. */
import { randomUUIDv7 } from 'node:crypto';
import { request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../runner/eventually.ts';
import { amount } from '../runner/soak.ts';
import type { Ledger } from './ledger.ts';

/** A queue with this many entries under way gets no more. Otherwise the backlog would be measured, not the service. */
const UNDER_WAY_MAX = 50;
/** The queue of events. */
const EVENTS = '';
/** Time limit of a request. Milliseconds. */
const PATIENCE_MS = 20_000;
/** Between the requests of one address, and between events of one kind, milliseconds. In a quick run the kills count, not the load. */
const PAUSE_MS = amount({ quick: 200, soak: 25 });
const EVENT_PAUSE_MS = amount({ quick: 500, soak: 200 });

export interface VendorOptions {
  readonly ledger: Ledger;
  /** Of the API, and of the session API. */
  readonly url: string;
  readonly sessionUrl: string;
  /** Each is a queue of the ledger. */
  readonly routingIds: readonly string[];
  readonly token: string;
  readonly installationId: string;
}

export class Vendor {
  readonly #options: VendorOptions;
  readonly #places = new Map<string, number>();
  /** The sessions of the conversations that an agent replies to; each is a queue of the ledger. */
  readonly #conversations: string[] = [];
  /** Requests that were not acknowledged. */
  unanswered = 0;

  constructor(options: VendorOptions) {
    this.#options = options;
  }

  get routingIds(): readonly string[] {
    return this.#options.routingIds;
  }

  /** One request to each address, one rerun of the set-up, one session: two kinds of events. */
  async send(): Promise<void> {
    const replies = this.#conversations.map((session) => this.reply(session));
    await Promise.all([this.deliverAll(), this.rerunSetup(), this.startSession(), ...replies]);
  }

  /** One request to each address. */
  async deliverAll(): Promise<void> {
    await Promise.all(this.#options.routingIds.map((routingId) => this.deliver(routingId)));
  }

  /** Sends until something has happened; who waits for an answer holds up nobody else. */
  async sendUntil(over: Promise<unknown>): Promise<void> {
    await Promise.all([
      this.deliverUntil(over),
      this.#repeat(EVENTS, () => this.rerunSetup(), EVENT_PAUSE_MS, over),
      this.#repeat(EVENTS, () => this.startSession(), EVENT_PAUSE_MS, over),
      ...this.#conversations.map((session) => this.#repeat(session, () => this.reply(session), EVENT_PAUSE_MS, over)),
    ]);
  }
  /** The same, of webhook requests only. */
  async deliverUntil(over: Promise<unknown>): Promise<void> {
    const { routingIds } = this.#options;
    await Promise.all(
      routingIds.map((routingId) => this.#repeat(routingId, () => this.deliver(routingId), PAUSE_MS, over)),
    );
  }

  async #repeat(queue: string, work: () => Promise<void>, pauseMs: number, over: Promise<unknown>): Promise<void> {
    let isOver = false;
    const noticed = over.then(() => {
      isOver = true;
    });
    while (!isOver) {
      if (this.#options.ledger.missing(queue) < UNDER_WAY_MAX) await work();
      await Promise.race([noticed, sleep(pauseMs)]);
    }
  }

  /** One webhook request. An address's requests must follow each other, or they are in no order. */
  async deliver(routingId: string): Promise<void> {
    const place = this.#place(routingId);
    const id = await this.#post(`${this.#options.url}/webhook/plugin/${routingId}`, `${routingId} ${place}`, 200, 'id');
    if (id !== null) this.#options.ledger.acknowledge({ id, queue: routingId, place });
  }

  /** Says hello at an address, so that there is a conversation. @returns its session */
  async startConversation(routingId: string): Promise<string> {
    const { url, sessionUrl, token } = this.#options;
    const sessions = async (): Promise<string[]> => {
      const { text } = await send('GET', `${sessionUrl}/sessions`, null, token);
      const items: { id: string; channelId: string | null }[] = JSON.parse(text).items;
      return items.filter(({ channelId }) => channelId !== null).map(({ id }) => id);
    };
    const before = await sessions();
    const id = await this.#post(`${url}/webhook/plugin/${routingId}`, 'hello 0', 200, 'id');
    if (id === null) throw new Error('the webhook address did not answer');
    return eventually(async () => (await sessions()).find((session) => !before.includes(session)));
  }

  /** From now on an agent replies to a conversation at each of the addresses. */
  async openConversations(routingIds = this.#options.routingIds): Promise<void> {
    for (const routingId of routingIds) this.#conversations.push(await this.startConversation(routingId));
  }

  /** Ends something whose end plugins are told of, as the ledger will know it. Again until it is answered with success. */
  async remove(path: string, id: string): Promise<void> {
    await eventually(() => this.tryRemoval(path));
    this.#options.ledger.acknowledge({ id, queue: EVENTS, place: 0 });
  }

  /** @returns whether it was answered with success */
  async tryRemoval(path: string): Promise<boolean> {
    const { url, token } = this.#options;
    const answer = await send('DELETE', `${url}/api${path}`, null, token).catch(() => null);
    return [200, 204].includes(answer?.status ?? 0);
  }

  /** One reply of an agent to a conversation. */
  async reply(session: string): Promise<void> {
    const place = this.#place(session);
    const id = randomUUIDv7();
    const body = JSON.stringify({ id, text: `${id} ${session} ${place}` });
    const url = `${this.#options.sessionUrl}/sessions/${session}/replies`;
    if ((await this.#post(url, body, 202, 'id')) !== null)
      this.#options.ledger.acknowledge({ id, queue: session, place });
  }

  /** The next place of a queue. */
  #place(queue: string): number {
    const place = this.#places.get(queue) ?? 0;
    this.#places.set(queue, place + 1);
    return place;
  }

  async rerunSetup(): Promise<void> {
    const path = `/api/installations/${this.#options.installationId}/rerun-setup`;
    const id = await this.#post(`${this.#options.url}${path}`, null, 202, 'eventId');
    if (id !== null) this.#options.ledger.acknowledge({ id, queue: EVENTS, place: 0 });
  }

  async startSession(): Promise<void> {
    const id = await this.#post(`${this.#options.sessionUrl}/sessions`, '{"agentId":"agent-1"}', 201, 'id');
    if (id !== null) this.#options.ledger.acknowledge({ id, queue: EVENTS, place: 0 });
  }

  /** @returns the id it was acknowledged with; null: it was not */
  async #post(url: string, body: string | null, good: number, field: string): Promise<string | null> {
    const answer = await send('POST', url, body, this.#options.token).catch(() => null);
    if (answer?.status === good) return JSON.parse(answer.text)[field];
    this.unanswered += 1;
    return null;
  }
}

function send(
  method: string,
  url: string,
  body: string | null,
  token: string,
): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const headers = {
      authorization: `Bearer ${token}`,
      ...(body === null ? {} : { 'content-type': 'application/json' }),
    };
    const sent = request(url, { method, agent: false, headers, timeout: PATIENCE_MS }, (answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
      });
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text }));
      answer.on('error', reject);
    });
    sent.on('timeout', () => sent.destroy(new Error('no answer')));
    sent.on('error', reject);
    sent.end(body ?? undefined);
  });
}
