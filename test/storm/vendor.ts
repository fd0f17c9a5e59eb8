/** Everybody outside who makes deliveries and events: each request on a connection of its own, acknowledged or not. */
import { request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Ledger } from './ledger.ts';

/** Nobody waits for an answer for ever, milliseconds. */
const PATIENCE_MS = 20_000;
/** Between the requests of one round and those of the next, milliseconds. */
const PAUSE_MS = 20;

export interface VendorOptions {
  readonly ledger: Ledger;
  /** Of the API, and of the session API. */
  readonly url: string;
  readonly sessionUrl: string;
  /** Each is a lane of the ledger. */
  readonly routingIds: readonly string[];
  readonly token: string;
  readonly installationId: string;
}

export class Vendor {
  readonly #options: VendorOptions;
  readonly #places = new Map<string, number>();
  /** Requests that were not acknowledged. */
  unanswered = 0;

  constructor(options: VendorOptions) {
    this.#options = options;
  }

  /** One request to each address, one rerun of the set-up, one session: two kinds of events. */
  async send(): Promise<void> {
    await Promise.all([this.deliverAll(), this.rerunSetup(), this.startSession()]);
  }

  /** One request to each address. */
  async deliverAll(): Promise<void> {
    await Promise.all(this.#options.routingIds.map((routingId) => this.deliver(routingId)));
  }

  /** Sends until something has happened. */
  sendUntil(over: Promise<unknown>): Promise<void> {
    return this.#repeat(() => this.send(), over);
  }
  /** The same, of webhook requests only. */
  deliverUntil(over: Promise<unknown>): Promise<void> {
    return this.#repeat(() => this.deliverAll(), over);
  }

  async #repeat(work: () => Promise<void>, over: Promise<unknown>): Promise<void> {
    let isOver = false;
    const noticed = over.then(() => {
      isOver = true;
    });
    while (!isOver) {
      await work();
      await Promise.race([noticed, sleep(PAUSE_MS)]);
    }
  }

  /** One webhook request. An address's requests must follow each other, or they are in no order. */
  async deliver(routingId: string): Promise<void> {
    const place = this.#places.get(routingId) ?? 0;
    this.#places.set(routingId, place + 1);
    const id = await this.#post(`${this.#options.url}/webhook/plugin/${routingId}`, `${routingId} ${place}`, 200, 'id');
    if (id !== null) this.#options.ledger.acknowledge({ id, lane: routingId, place });
  }

  async rerunSetup(): Promise<void> {
    const path = `/api/installations/${this.#options.installationId}/rerun-setup`;
    const id = await this.#post(`${this.#options.url}${path}`, null, 202, 'eventId');
    if (id !== null) this.#options.ledger.acknowledge({ id, lane: '', place: 0 });
  }

  async startSession(): Promise<void> {
    const id = await this.#post(`${this.#options.sessionUrl}/sessions`, '{"agentId":"agent-1"}', 201, 'id');
    if (id !== null) this.#options.ledger.acknowledge({ id, lane: '', place: 0 });
  }

  /** @returns the id it was acknowledged with; null: it was not */
  async #post(url: string, body: string | null, good: number, field: string): Promise<string | null> {
    const answer = await post(url, body, this.#options.token).catch(() => null);
    if (answer?.status === good) return JSON.parse(answer.text)[field];
    this.unanswered += 1;
    return null;
  }
}

function post(url: string, body: string | null, token: string): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const headers = {
      authorization: `Bearer ${token}`,
      ...(body === null ? {} : { 'content-type': 'application/json' }),
    };
    const sent = request(url, { method: 'POST', agent: false, headers, timeout: PATIENCE_MS }, (answer) => {
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
