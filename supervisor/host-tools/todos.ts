/** To-dos as a service of the host: the four hooks run here, whoever changes a to-do. */

import { randomUUIDv7 } from 'node:crypto';
import type { z } from 'zod';
import type { FencedPool } from '../../db/postgres/pool.ts';
import type { Bounded } from '../../db/postgres/rows.ts';
import type { Session } from '../../db/sessions/sessions.ts';
import {
  deleteTodo,
  findTodo,
  insertTodo,
  type Todo,
  type TodoFields,
  type TodoKey,
  type TodoRow,
  updateTodo,
} from '../../db/sessions/todos.ts';
import type { Trigger } from '../../db/sessions/turns.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import type { todoChanges } from '../../sdk/contract/payloads.ts';
import { runHookOrThrow } from '../sessions/hooks.ts';
import type { SessionServices } from '../sessions/session-services.ts';
import { createReusedProblem, digestOf } from '../sessions/turn-answers.ts';

/** Maximum number of to-dos of an account, done ones included. */
const TODOS_MAX = 5_000;

export type TodoChanges = z.output<typeof todoChanges>;

/** A to-do as runtimes and agents see it. */
type TodoAnswer = Omit<TodoRow, 'digest' | 'position'>;
export const describeTodo = ({ digest: _, position: __, bytesSoFar: ___, ...todo }: TodoRow & Bounded): TodoAnswer =>
  todo;

/** @throws Problem `cancelled`, `id_reused`, `too_many`, `quota_exceeded` */
export function createTodo(
  services: SessionServices,
  session: Session,
  { id: todoId = randomUUIDv7(), ...fields }: TodoFields & { readonly id?: string | undefined },
  trigger: Trigger,
): Promise<TodoAnswer> {
  const key = { accountId: session.accountId, todoId };
  const digest = digestOf([fields.title, fields.notes, fields.dueAt, fields.assigneeAgentId]);
  return lockTodo(services, key, async (writes) => {
    // Of an earlier request with this id.
    const known = await findTodo(services.pool, key);
    if (known && known.digest !== digest) throw createReusedProblem('a to-do');
    if (known) return describeTodo(known);
    const { todo } = await runTodoHook(services, session, 'todoCreate', { todo: fields }, trigger);
    await services.faultPoint('todo.judged');
    const kept = { digest, createdBy: session.agentId, maxTodos: TODOS_MAX };
    const made = await insertTodo(writes, key, todo, kept);
    await services.faultPoint('todo.written');
    if (!made)
      throw new Problem('too_many', `The account has ${TODOS_MAX} to-dos. Delete some, such as those that are done.`);
    return describeTodo(made);
  });
}

/** @throws Problem `cancelled`, `not_found`, `quota_exceeded` */
export function changeTodo(
  services: SessionServices,
  session: Session,
  todoId: string,
  { done, ...wanted }: TodoChanges,
  { trigger, by }: { readonly trigger: Trigger; readonly by: string },
): Promise<TodoAnswer> {
  const key = { accountId: session.accountId, todoId };
  return lockTodo(services, key, async (writes) => {
    const before = await requireTodo(services, key);
    const isReopened = done === false && before.done;
    const requested: TodoChanges = { ...pickChanges(before, wanted), ...(isReopened ? { done: false } : {}) };
    let changes = requested;
    if (Object.keys(requested).length > 0) {
      const context = { before: toHookTodo(before), changes: requested };
      ({ changes } = await runTodoHook(services, session, 'todoUpdate', context, trigger));
    }
    const after = applyChanges(toHookTodo(before), changes);
    const isCompleted = done === true && !before.done;
    if (isCompleted) await runTodoHook(services, session, 'todoComplete', { todo: after, by }, trigger);
    await services.faultPoint('todo.judged');
    // A plugin that changes a to-do neither completes nor reopens it.
    const isDone = isCompleted || (before.done && !(isReopened && changes.done === false));
    const updated = await updateTodo(writes, key, { ...after, done: isDone });
    await services.faultPoint('todo.written');
    if (!updated) throw createUnknownProblem();
    return describeTodo(updated);
  });
}

/** @throws Problem `cancelled`, `not_found` */
export function removeTodo(
  services: SessionServices,
  session: Session,
  todoId: string,
  trigger: Trigger,
): Promise<TodoAnswer> {
  const key = { accountId: session.accountId, todoId };
  return lockTodo(services, key, async (writes) => {
    const todo = await requireTodo(services, key);
    await runTodoHook(services, session, 'todoDelete', { todo: toHookTodo(todo) }, trigger);
    await services.faultPoint('todo.judged');
    await deleteTodo(writes, key);
    return describeTodo(todo);
  });
}

/** @throws Problem `not_found` */
export async function requireTodo({ pool }: SessionServices, key: TodoKey): Promise<TodoRow> {
  const found = await findTodo(pool, key);
  if (!found) throw createUnknownProblem();
  return found;
}

const createUnknownProblem = () => new Problem('not_found', 'The account has no to-do with this id. List the to-dos.');

/**
 * Runs the changes of a to-do one after the other. Hooks would judge concurrent ones against the same state. A process that stood still
 * meanwhile, and no longer owns the account, writes nothing.
 */
const lockTodo = <T>(
  { router, turnLocks }: SessionServices,
  { accountId, todoId }: TodoKey,
  work: (writes: FencedPool) => Promise<T>,
): Promise<T> => turnLocks.run(`todo ${accountId} ${todoId}`, async () => work(router.ownership.pool(accountId)));

const runTodoHook = async <Context extends Readonly<Record<string, unknown>>>(
  services: SessionServices,
  session: Session,
  hook: 'todoCreate' | 'todoUpdate' | 'todoComplete' | 'todoDelete',
  context: Context,
  trigger: Trigger,
): Promise<Context> => (await runHookOrThrow(services, session, `middleware.${hook}`, context, trigger)).context;

const toHookTodo = ({ id, title, notes, dueAt, assigneeAgentId, done }: TodoRow): Todo => ({
  id,
  title,
  notes,
  dueAt,
  assigneeAgentId,
  done,
});

/** The fields that differ. */
function pickChanges(before: TodoRow, wanted: Omit<TodoChanges, 'done'>): Omit<TodoChanges, 'done'> {
  const names = ['title', 'notes', 'dueAt', 'assigneeAgentId'] as const;
  const isChange = (name: (typeof names)[number]): boolean => {
    if (wanted[name] === undefined) return false;
    return name === 'dueAt' ? !isSameTime(before.dueAt, wanted.dueAt) : wanted[name] !== before[name];
  };
  return Object.fromEntries(names.filter(isChange).map((name) => [name, wanted[name]]));
}

const isSameTime = (one: string | null, other: string | null | undefined): boolean =>
  one === null || !other ? one === (other ?? null) : Date.parse(one) === Date.parse(other);

const applyChanges = (before: Todo, { title, notes, dueAt, assigneeAgentId }: TodoChanges): Todo => ({
  ...before,
  title: title ?? before.title,
  notes: notes ?? before.notes,
  dueAt: dueAt === undefined ? before.dueAt : dueAt,
  assigneeAgentId: assigneeAgentId === undefined ? before.assigneeAgentId : assigneeAgentId,
});
