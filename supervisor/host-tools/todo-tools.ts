/** `todo__…`: to-dos for agents. */
import { z } from 'zod';
import { pageTodos } from '../../db/sessions/todos.ts';
import { timestamp, todoFields } from '../../sdk/contract/payloads.ts';
import { storedId, storedText } from '../../service/http/schemas.ts';
import { defineTool, type HostTool, pageFields, removeOnce } from './host-tool.ts';
import { changeTodo, createTodo, describeTodo, removeTodo, requireTodo } from './todos.ts';

/** Characters of the notes in a list. `todo__read` has all of them. */
const NOTES_LISTED_MAX = 500;
const TITLE_MAX_CHARS = 1_000;
const NOTES_MAX_CHARS = 65_536;

const title = storedText(TITLE_MAX_CHARS).min(1, 'must not be empty');
const notes = storedText(NOTES_MAX_CHARS);
const dueAt = timestamp.nullable().describe('ISO 8601 with an offset, such as 2026-01-05T09:00:00Z.');
const assigneeAgentId = storedId.nullable().describe('The agent who should do it. Null: no agent in particular.');
const id = storedId.describe('As todo__create or todo__list returned it.');

/** Fields that requests and tools share, with texts that the database can store. */
export const newTodoFields = {
  title,
  notes: notes.default(''),
  dueAt: dueAt.default(null),
  assigneeAgentId: assigneeAgentId.default(null),
};
export const changedTodoFields = {
  title: title.optional(),
  notes: notes.optional(),
  dueAt: todoFields.shape.dueAt.optional(),
  assigneeAgentId: assigneeAgentId.optional(),
  done: z.boolean().optional(),
};
const byAgent = (agentId: string) => ({ trigger: 'agent', by: agentId }) as const;

export const todoTools: readonly HostTool[] = [
  defineTool({
    name: 'todo__create',
    description: 'Creates a to-do that all agents of the account see.',
    input: z.strictObject(newTodoFields),
    isRepeatable: true,
    run: (services, session, fields, { requestId }) =>
      createTodo(services, session, { ...fields, id: requestId }, 'agent'),
  }),
  defineTool({
    name: 'todo__list',
    description: 'Lists to-dos, oldest first. Long notes are cut.',
    input: z.strictObject({
      done: z.boolean().default(false).describe('Whether to list those that are done.'),
      assigneeAgentId: storedId.optional(),
      ...pageFields,
    }),
    isRepeatable: true,
    run: async ({ pool }, { accountId }, query) => {
      const { items, nextCursor } = await pageTodos(pool, { accountId, ...query });
      // The cut may separate the halves of a character.
      const todos = items.map((row) => ({
        ...describeTodo(row),
        notes: row.notes.slice(0, NOTES_LISTED_MAX).toWellFormed(),
      }));
      return { todos, nextCursor };
    },
  }),
  defineTool({
    name: 'todo__read',
    description: 'Reads one to-do with all of its notes.',
    input: z.strictObject({ id }),
    isRepeatable: true,
    run: async (services, { accountId }, { id: todoId }) =>
      describeTodo(await requireTodo(services, { accountId, todoId })),
  }),
  defineTool({
    name: 'todo__update',
    description: 'Changes the fields of a to-do that are given. `done` completes or reopens it.',
    input: z.strictObject({ id, ...changedTodoFields }),
    // The same change, made again, could undo one that was made in between.
    isRepeatable: false,
    run: (services, session, { id: todoId, ...changes }) =>
      changeTodo(services, session, todoId, changes, byAgent(session.agentId)),
  }),
  defineTool({
    name: 'todo__complete',
    description: 'Marks a to-do as done.',
    input: z.strictObject({ id }),
    // As `todo__update`: it may have been reopened in between.
    isRepeatable: false,
    run: (services, session, { id: todoId }) =>
      changeTodo(services, session, todoId, { done: true }, byAgent(session.agentId)),
  }),
  defineTool({
    name: 'todo__delete',
    description: 'Deletes a to-do. To keep a record of it, complete it instead.',
    input: z.strictObject({ id }),
    isRepeatable: true,
    run: async (services, session, { id: todoId }, call) => ({
      deleted: await removeOnce(call, todoId, () => removeTodo(services, session, todoId, 'agent')),
    }),
  }),
];
