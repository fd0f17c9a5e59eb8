/** `/sessions/{id}/todos`: the to-dos of the account, in the name of a session. */

import type { FastifySchema } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { mapPage } from '../../db/postgres/cursors.ts';
import { pageTodos } from '../../db/sessions/todos.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { answerCreated } from '../../service/http/created.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { jsonBody, page, pageQuery, queryFlag, storedId, storedText, timestamp } from '../../service/http/schemas.ts';
import { requireSession, type SessionServices, sessionParams } from '../sessions/session-services.ts';
import { ownId, startedBy } from './request-fields.ts';
import { changedTodoFields, newTodoFields } from './todo-tools.ts';
import { changeTodo, createTodo, describeTodo, removeTodo, requireTodo } from './todos.ts';

const BY_MAX_CHARS = 500;

const todoParams = sessionParams.extend({ todoId: z.string() });

const todoResource = z
  .strictObject({
    id: z.string(),
    title: z.string(),
    notes: z.string(),
    dueAt: timestamp.nullable(),
    assigneeAgentId: z.string().nullable(),
    done: z.boolean(),
    createdBy: z.string().describe('The agent of the session in which it was created.'),
    createdAt: timestamp,
    updatedAt: timestamp,
  })
  .meta({ id: 'Todo', description: 'A to-do of the account. All its agents share them.' });

const todoQuery = pageQuery.extend({
  done: queryFlag.optional().describe('Lists only the to-dos that are done, or only the others. Default: both.'),
  assigneeAgentId: storedId.optional(),
});

const shapes = {
  create: {
    summary: 'Creates a to-do',
    details: 'Runs the hook `todoCreate`. A request with the id of an existing to-do returns that to-do.',
    problems: ['cancelled', 'id_reused', 'too_many', 'quota_exceeded'],
    params: sessionParams,
    body: jsonBody({
      id: ownId,
      ...newTodoFields,
      trigger: startedBy,
    }),
    response: { 201: todoResource },
  },
  all: {
    summary: 'The to-dos of the account, oldest first, without a session',
    querystring: todoQuery,
    response: { 200: page(todoResource) },
  },
  list: {
    summary: 'The to-dos of the account, oldest first',
    params: sessionParams,
    querystring: todoQuery,
    response: { 200: page(todoResource) },
  },
  one: { summary: 'One to-do', params: todoParams, response: { 200: todoResource } },
  change: {
    summary: 'Changes, completes or reopens a to-do',
    details:
      'Runs the hook `todoUpdate` for the fields that change, and `todoComplete` if `done` becomes true. If a plugin cancels either, nothing changes.',
    problems: ['cancelled', 'quota_exceeded'],
    params: todoParams,
    body: jsonBody({
      ...changedTodoFields,
      trigger: startedBy,
      by: storedText(BY_MAX_CHARS)
        .optional()
        .describe(
          'The name that plugins see as the one who completes it. Default: `user` if the trigger is `user`, otherwise the agent.',
        ),
    }),
    response: { 200: todoResource },
  },
  remove: {
    summary: 'Deletes a to-do',
    details: 'Runs the hook `todoDelete`. Returns the deleted to-do.',
    problems: ['cancelled'],
    params: todoParams,
    querystring: z.object({ trigger: startedBy }),
    response: { 200: todoResource },
  },
} satisfies Record<string, FastifySchema>;

export function todoRoutes(services: SessionServices): FastifyPluginAsyncZod {
  const listTodos = async (query: Parameters<typeof pageTodos>[1]) =>
    mapPage(await pageTodos(services.pool, query), describeTodo);
  return async (app) => {
    groupRoutes(app, 'Services');
    app.post('/sessions/:sessionId/todos', { schema: shapes.create }, async (request, reply) => {
      const session = await requireSession(services, requireCaller(request), request.params);
      const { trigger: started, ...fields } = request.body;
      const todo = await createTodo(services, session, fields, started);
      return answerCreated(request, reply, encodeURIComponent(todo.id)).send(todo);
    });

    app.get('/todos', { schema: shapes.all }, async (request) => {
      const { id: accountId } = requireCaller(request);
      return listTodos({ accountId, ...request.query });
    });

    app.get('/sessions/:sessionId/todos', { schema: shapes.list }, async (request) => {
      const { accountId } = await requireSession(services, requireCaller(request), request.params);
      return listTodos({ accountId, ...request.query });
    });

    app.get('/sessions/:sessionId/todos/:todoId', { schema: shapes.one }, async (request) => {
      const { accountId } = await requireSession(services, requireCaller(request), request.params);
      return describeTodo(await requireTodo(services, { accountId, todoId: request.params.todoId }));
    });

    app.patch('/sessions/:sessionId/todos/:todoId', { schema: shapes.change }, async (request) => {
      const session = await requireSession(services, requireCaller(request), request.params);
      const { trigger: started, by = started === 'user' ? 'user' : session.agentId, ...changes } = request.body;
      return changeTodo(services, session, request.params.todoId, changes, { trigger: started, by });
    });

    app.delete('/sessions/:sessionId/todos/:todoId', { schema: shapes.remove }, async (request) => {
      const session = await requireSession(services, requireCaller(request), request.params);
      return removeTodo(services, session, request.params.todoId, request.query.trigger);
    });
  };
}
