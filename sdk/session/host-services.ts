/** What the host does for the agents and people of a session. Its hooks run by themselves. */
import type { NewTodo, Page, Todo, TodoChanges, Trigger } from './api-types.ts';
import type { Call, Transport } from './transport.ts';

interface Cancellable {
  readonly signal?: AbortSignal;
}
/** What started the operation. Plugins may allow a person what they refuse an agent. */
interface Started extends Cancellable {
  readonly trigger: Trigger;
}

export class HostServices {
  readonly #transport: Transport;
  readonly #path: string;

  constructor(transport: Transport, sessionId: string) {
    this.#transport = transport;
    this.#path = `/sessions/${encodeURIComponent(sessionId)}`;
  }

  /** Creates a to-do of the account. Idempotent by `id`. @throws BulkheadError `cancelled` */
  createTodo(todo: NewTodo, { trigger, signal }: Started): Promise<Todo> {
    return this.#send('POST', '/todos', { id: crypto.randomUUID(), ...todo, trigger }, signal);
  }

  /** Lists the to-dos of the account, oldest first. */
  todos({
    signal,
    ...query
  }: { done?: boolean; assigneeAgentId?: string; limit?: number; cursor?: string } & Cancellable = {}): Promise<
    Page<Todo>
  > {
    const present = Object.entries(query).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, String(value)]],
    );
    return this.#send('GET', `/todos?${new URLSearchParams(present)}`, undefined, signal);
  }

  /** Changes, completes or reopens a to-do. @throws BulkheadError `cancelled` */
  changeTodo(id: string, changes: TodoChanges, { trigger, signal }: Started): Promise<Todo> {
    return this.#send('PATCH', `/todos/${encodeURIComponent(id)}`, { ...changes, trigger }, signal);
  }

  /** Deletes a to-do, and returns it as it was. @throws BulkheadError `cancelled` */
  deleteTodo(id: string, { trigger, signal }: Started): Promise<Todo> {
    return this.#send('DELETE', `/todos/${encodeURIComponent(id)}?trigger=${trigger}`, undefined, signal);
  }

  #send<T>(method: Call['method'], suffix: string, body: unknown, signal: AbortSignal | undefined): Promise<T> {
    const request = { method, path: this.#path + suffix, signal, repeatable: method !== 'DELETE' };
    return this.#transport.json(body === undefined ? request : { ...request, body });
  }
}
