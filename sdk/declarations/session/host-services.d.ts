/** What the host does for the agents and people of a session. Its hooks run by themselves. */
import type { NewTodo, Page, Todo, TodoChanges, Trigger } from './api-types.js';
import type { Transport } from './transport.js';
interface Cancellable {
    readonly signal?: AbortSignal;
}
/** What started the operation. Plugins may allow a person what they refuse an agent. */
interface Started extends Cancellable {
    readonly trigger: Trigger;
}
export declare class HostServices {
    #private;
    constructor(transport: Transport, sessionId: string);
    /** Creates a to-do of the account. Idempotent by `id`. @throws BulkheadError `cancelled` */
    createTodo(todo: NewTodo, { trigger, signal }: Started): Promise<Todo>;
    /** Lists the to-dos of the account, oldest first. */
    todos({ signal, ...query }?: {
        done?: boolean;
        assigneeAgentId?: string;
        limit?: number;
        cursor?: string;
    } & Cancellable): Promise<Page<Todo>>;
    /** Changes, completes or reopens a to-do. @throws BulkheadError `cancelled` */
    changeTodo(id: string, changes: TodoChanges, { trigger, signal }: Started): Promise<Todo>;
    /** Deletes a to-do, and returns it as it was. @throws BulkheadError `cancelled` */
    deleteTodo(id: string, { trigger, signal }: Started): Promise<Todo>;
}
export {};
